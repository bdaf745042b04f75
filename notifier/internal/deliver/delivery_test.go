package deliver

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/unloop/unloop/schemas"
	"github.com/unloop/unloop/schemas/event"
	"github.com/unloop/unloop/schemas/kit/natskit"
	"github.com/unloop/unloop/schemas/kit/natstest"
	"github.com/unloop/unloop/schemas/match"
	"github.com/unloop/unloop/schemas/silence"
)

// An endpoint that takes nothing fills its own share of the bucket. Its other messages
// become dead letters, and another endpoint gets each of its messages meanwhile.
func TestADeadEndpointTakesNoMoreThanItsShare(t *testing.T) {
	t.Parallel()
	healthy, dead := newHook(false), newHook(true)
	r := start(t, natstest.Start(t), map[string]*hook{"healthy": healthy, "dead": dead})
	const room, loops = 1 << 20, 300
	r.bound(t, room)
	want := map[string]bool{}
	for i := range loops {
		want[r.publish(t, event.Detected, fmt.Sprint("loop-", i))] = true
		want[r.publish(t, event.Resolved, fmt.Sprint("loop-", i))] = true
	}
	for len(want) > 0 {
		delete(want, healthy.next(t))
	}
	r.awaitTakenIn(t, "dead")
	letters, err := r.stream(t, schemas.StreamDeadLetters).Info(t.Context(), jetstream.WithSubjectFilter(schemas.SubjectDeadLetter+".>"))
	if err != nil {
		t.Fatal(err)
	}
	n := letters.State.Subjects[schemas.DeadLetterSubject("dead")]
	if counted := testutil.ToFloat64(r.metrics.dead.WithLabelValues("dead", "full")); n == 0 || letters.State.Msgs != n || counted < float64(n) {
		t.Errorf("%d dead letters of the dead endpoint among %d, %g are counted", n, letters.State.Msgs, counted)
	}
	if part := testutil.ToFloat64(r.metrics.share.WithLabelValues("dead")); part < 1 {
		t.Errorf("a part of %g of the share is taken", part)
	}
	if bytes := r.stream(t, natskit.BucketStream(schemas.BucketNotifications)).CachedInfo().State.Bytes; float64(bytes) > room*shared {
		t.Errorf("%d of %d bytes are taken", bytes, room)
	}
}

// What a full bucket has no room for becomes a dead letter, and holds up nothing.
func TestAFullBucketMakesDeadLetters(t *testing.T) {
	t.Parallel()
	h := newHook(false)
	r := start(t, natstest.Start(t), map[string]*hook{"ops": h})
	r.bound(t, 1)
	r.publish(t, event.Detected, "loop")
	letters := r.stream(t, schemas.StreamDeadLetters)
	await(t, "there is a dead letter", func() bool {
		msg, err := letters.GetLastMsgForSubject(t.Context(), schemas.DeadLetterSubject("ops"))
		return err == nil && strings.Contains(string(msg.Data), "full")
	})
	r.bound(t, 1<<20)
	if want, id := r.publish(t, event.Detected, "next"), h.next(t); id != want {
		t.Errorf("sent is %s, want %s", id, want)
	}
}

// A silence that ends early hides a loop no more: its message follows at once.
func TestAMessageFollowsASilenceThatEndsEarly(t *testing.T) {
	t.Parallel()
	h := newHook(false)
	r := start(t, natstest.Start(t), map[string]*hook{"ops": h})
	now := time.Now()
	r.silences.Store(&[]silence.Silence{{ID: "s", Matchers: match.Matchers{"policy": {"p"}}, Start: now.Add(-time.Minute), End: now.Add(8 * time.Hour)}})
	want := r.publish(t, event.Detected, "hidden")
	await(t, "the loop is hidden", func() bool {
		e := r.endpoint("ops")
		e.mu.Lock()
		defer e.mu.Unlock()
		return len(e.silenced) == 1
	})
	if len(h.got) > 0 {
		t.Fatalf("%s is sent, which a silence hides", h.next(t))
	}
	r.silences.Store(&[]silence.Silence{})
	r.Unsilence()
	if id := h.next(t); id != want {
		t.Errorf("sent is %s, want %s", id, want)
	}
}

// A notifier that reads the events again, as behind another version with other names for its
// consumers and records, sends nothing again that the delivery log has.
func TestEventsThatAreReadAnewAreNotSentAgain(t *testing.T) {
	t.Parallel()
	s := natstest.Start(t)
	h := newHook(false)
	before := start(t, s, map[string]*hook{"ops": h})
	const loops = 20
	for i := range loops {
		before.publish(t, event.Detected, fmt.Sprint("loop-", i))
	}
	for range loops {
		h.next(t)
	}
	await(t, "all is logged", func() bool {
		return before.stream(t, natskit.BucketStream(schemas.BucketDeliveries)).CachedInfo().State.Msgs == loops
	})
	before.stop()
	if err := before.js.DeleteConsumer(t.Context(), schemas.StreamEvents, schemas.EndpointConsumer("ops")); err != nil {
		t.Fatal(err)
	}
	if err := before.stream(t, natskit.BucketStream(schemas.BucketNotifications)).Purge(t.Context()); err != nil {
		t.Fatal(err)
	}
	after := start(t, s, map[string]*hook{"ops": h})
	if want, id := after.publish(t, event.Detected, "new"), h.next(t); id != want {
		t.Errorf("sent is %s, want %s", id, want)
	}
	await(t, "all are seen to", func() bool {
		return testutil.ToFloat64(after.metrics.deliveries.WithLabelValues("ops", "test", string(Duplicate))) == loops
	})
	if len(h.got) > 0 {
		t.Errorf("%s is sent again", h.next(t))
	}
}
