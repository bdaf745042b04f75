package notifier_test

import (
	"bytes"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/unloop/unloop/schemas"
	"github.com/unloop/unloop/schemas/kit/natstest"
	"github.com/unloop/unloop/schemas/kit/silences"
	"github.com/unloop/unloop/schemas/match"
	"github.com/unloop/unloop/schemas/silence"
)

// A silence that an operator ends early hides a loop no more: its message follows at once.
func TestTheMessageOfAnOpenLoopFollowsASilenceThatEndsEarly(t *testing.T) {
	t.Parallel()
	s := natstest.Start(t)
	js := s.JetStream()
	added, err := silences.Add(t.Context(), js, silence.Silence{
		Matchers: match.Matchers{"policy": {"agent-tools"}}, Author: "ops", Start: time.Now().Add(-time.Minute), End: time.Now().Add(8 * time.Hour),
	})
	if err != nil {
		t.Fatal(err)
	}
	hook := newReceiver(t, nil)
	r := start(t, s.Conn(), testConfig(hook.URL))
	r.waitReady(t)
	kv, err := js.KeyValue(t.Context(), schemas.BucketNotifications)
	if err != nil {
		t.Fatal(err)
	}
	watch, err := kv.Watch(t.Context(), schemas.OwedPrefix+">", jetstream.UpdatesOnly())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = watch.Stop() }()
	publish(t, js, "hidden")
	if stored := receive(t, watch.Updates()); !bytes.Contains(stored.Value(), []byte(`"silenced":true`)) {
		t.Fatalf("queued is %s, which a silence hides", stored.Value())
	}
	if _, err := silences.Expire(t.Context(), js, added.ID); err != nil {
		t.Fatal(err)
	}
	if id := receive(t, hook.got).id(); id != "hidden" {
		t.Errorf("delivered is %s", id)
	}
}
