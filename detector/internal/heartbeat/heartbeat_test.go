package heartbeat

import (
	"context"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/unloop/unloop/schemas"
	"github.com/unloop/unloop/schemas/kit/natstest"
)

func TestAHeartBeatsUnderItsNameUntilTheDetectorStops(t *testing.T) {
	t.Parallel()
	s := natstest.Start(t)
	nc, beats := s.Conn(), make(chan *nats.Msg, 1024)
	if _, err := nc.ChanSubscribe(schemas.SubjectBeat, beats); err != nil {
		t.Fatal(err)
	}
	if err := nc.Flush(); err != nil {
		t.Fatal(err)
	}
	h := New(s.Service())
	ctx, stop := context.WithCancel(t.Context())
	taking, leave := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		h.Run(ctx, taking)
	}()
	for range 3 {
		if m := <-beats; string(m.Data) != h.Name() || !schemas.IsDetectorName(h.Name()) {
			t.Errorf("beat %q of %q", m.Data, h.Name())
		}
	}
	leave()
	h.Await() // it still watches for stalls
	stop()
	<-done
}

// A process that was frozen catches up before it takes checks again.
func TestAFrozenProcessIsNoticed(t *testing.T) {
	t.Parallel()
	h := New(natstest.Start(t).Service())
	h.born = h.born.Add(-time.Hour)
	if !h.Stalled() {
		t.Error("an hour without a beat is no stall")
	}
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		h.Run(ctx, ctx)
	}()
	for h.Stalled() { // a machine under load stalls again
		h.Await()
	}
	stop()
	<-done
	h.catching.Store(true)
	if !h.Stalled() {
		t.Error("messages from the stall may be waiting")
	}
	h.catching.Store(false)
	h.born = h.born.Add(-time.Hour)
	began := time.Now()
	if h.Await(); time.Since(began) < catchUpTimeout {
		t.Error("a heart that stays frozen was not waited for")
	}
}

func TestCatchingUpEnds(t *testing.T) {
	t.Parallel()
	h := New(natstest.Start(t).Service())
	h.mark()
	if h.catchUp(); h.catching.Load() {
		t.Error("still catching up")
	}
}

// A gateway that asks hears of a detector's end as soon as ever.
func TestAHeartThatIsAskedBeatsFaster(t *testing.T) {
	t.Parallel()
	h := New(natstest.StartBare(t).Service())
	for i, want := range []time.Duration{idleEvery, schemas.BeatEvery, schemas.BeatEvery, idleEvery} {
		if want == schemas.BeatEvery {
			h.Stalled()
		}
		if got := h.rest(); got != want {
			t.Errorf("rest %d is %s, want %s", i, got, want)
		}
	}
}
