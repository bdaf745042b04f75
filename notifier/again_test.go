package notifier_test

import (
	"fmt"
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/unloop/unloop/schemas"
	"github.com/unloop/unloop/schemas/kit/natskit"
	"github.com/unloop/unloop/schemas/kit/natstest"
)

// A notifier that reads the events anew, as behind another version with other names for its
// consumers and records, sends nothing again that the delivery log has.
func TestEventsThatAreReadAnewAreNotDeliveredAgain(t *testing.T) {
	t.Parallel()
	s := natstest.Start(t)
	js := s.JetStream()
	hook := newReceiver(t, nil)
	const events = 20
	for i := range events {
		publish(t, js, fmt.Sprint("evt-", i))
	}
	before := start(t, s.Conn(), testConfig(hook.URL))
	for range events {
		receive(t, hook.got)
	}
	wantDrained(t, s)
	before.stop()
	if err := js.DeleteConsumer(t.Context(), schemas.StreamEvents, schemas.EndpointConsumer("webhook")); err != nil {
		t.Fatal(err)
	}
	owed, err := js.Stream(t.Context(), natskit.BucketStream(schemas.BucketNotifications))
	if err != nil {
		t.Fatal(err)
	}
	if err := owed.Purge(t.Context(), jetstream.WithPurgeSubject("$KV."+schemas.BucketNotifications+"."+schemas.OwedPrefix+">")); err != nil {
		t.Fatal(err)
	}
	publish(t, js, "evt-new")
	after := start(t, s.Conn(), testConfig(hook.URL))
	after.waitReady(t)
	if id := receive(t, hook.got).id(); id != "evt-new" {
		t.Errorf("%s is delivered again", id)
	}
	wantDrained(t, s)
	after.stop()
	if counted := after.results(t); counted["duplicate"] != events || counted["delivered"] != 1 {
		t.Errorf("attempts %v, want %d duplicates and one delivery", counted, events)
	}
}
