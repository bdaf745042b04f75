package notifier_test

import (
	"testing"
	"time"

	"github.com/unloop/unloop/schemas/event"
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
		Matchers: match.Matchers{"policy": {"p"}}, Author: "ops", Start: time.Now().Add(-time.Minute), End: time.Now().Add(8 * time.Hour),
	})
	if err != nil {
		t.Fatal(err)
	}
	hook := newReceiver(t, nil)
	r := start(t, s.Conn(), testConfig(hook.URL))
	r.waitReady(t)
	publishLoop(t, js, event.Detected, "hidden")
	awaitTakenIn(t, js)
	publish(t, js, "seen") // of another policy
	if id := receive(t, hook.got).id(); id != "seen" {
		t.Fatalf("delivered is %s, which a silence hides", id)
	}
	if _, err := silences.Expire(t.Context(), js, added.ID); err != nil {
		t.Fatal(err)
	}
	if id := receive(t, hook.got).id(); id != "hidden."+string(event.Detected) {
		t.Errorf("delivered is %s", id)
	}
}
