package vectors_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/unloop/unloop/embedworker/internal/vectors"
	"github.com/unloop/unloop/schemas/kit/natskit"
	"github.com/unloop/unloop/schemas/kit/natstest"
)

// streakOf compares a request and returns what is known of its scope's streak.
func streakOf(t *testing.T, s vectors.Store, r vectors.Request) vectors.Streak {
	t.Helper()
	h, err := s.Compare(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	return h.Streak
}

func expectStreak(t *testing.T, s vectors.Store, r vectors.Request) {
	t.Helper()
	if err := s.Expect(t.Context(), r); err != nil {
		t.Fatal(err)
	}
}

// twoWorkers returns stores of two workers on the same records.
func twoWorkers(t *testing.T) (one, two vectors.Store, c *clock, s *natstest.Server) {
	t.Helper()
	s, c = natstest.StartBare(t), newClock()
	one, two = vectors.NewKV(s.Service(), natskit.Layout{}, c.now, nil), vectors.NewKV(s.Service(), natskit.Layout{}, c.now, nil)
	if err := one.Ping(t.Context()); err != nil {
		t.Fatal(err)
	}
	return one, two, c, s
}

func TestAnExpectedStreakIsKnownToAllWorkers(t *testing.T) {
	t.Parallel()
	one, two, c, _ := twoWorkers(t)
	r := request()
	r.TTL = time.Minute
	for i, s := range []vectors.Store{one, two, one, one} {
		if got := streakOf(t, s, r); got != vectors.StreakNone {
			t.Errorf("text %d: %d before one is expected", i, got)
		}
	}
	expectStreak(t, two, r)
	for i, s := range []vectors.Store{one, two, one} {
		if got := streakOf(t, s, r); got != vectors.StreakPossible {
			t.Errorf("text %d: %d after one is expected", i, got)
		}
		c.advance(30 * time.Second)
	}
	expectStreak(t, two, r) // it is written again, and kept for a minute from now on
	for range 3 {
		c.advance(30 * time.Second)
		if peek := with(r, 1); streakOf(t, one, peek) != vectors.StreakPossible {
			t.Error("forgotten while it may be kept")
		}
	}
	c.advance(time.Minute)
	if got := streakOf(t, one, r); got != vectors.StreakNone {
		t.Errorf("%d after its time", got)
	}
	empty := request()
	expectStreak(t, one, empty)
	empty.Peek = true
	if h, err := two.Compare(t.Context(), empty); err != nil || h.Streak != vectors.StreakPossible || len(h.Past) != 0 {
		t.Errorf("a scope without texts: %+v, %v", h, err)
	}
	if bad := (vectors.Request{}); one.Expect(t.Context(), bad) == nil {
		t.Error("expected without a scope")
	}
}

// A note costs a write once, not with each match.
func TestANoteStands(t *testing.T) {
	t.Parallel()
	one, _, _, s := twoWorkers(t)
	r := request()
	expectStreak(t, one, r)
	before := lastSequence(t, s)
	for range 5 {
		expectStreak(t, one, r)
	}
	if n := lastSequence(t, s) - before; n != 0 {
		t.Errorf("%d writes of what was noted", n)
	}
}

func lastSequence(t *testing.T, s *natstest.Server) uint64 {
	t.Helper()
	stream, err := s.JetStream().Stream(t.Context(), "KV_LOOP_VECTORS")
	if err != nil {
		t.Fatal(err)
	}
	info, err := stream.Info(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return info.State.LastSeq
}

// Once a streak is noted, no comparison that begins later misses it, on whichever worker,
// while many texts are remembered at once.
func TestNoComparisonMissesANote(t *testing.T) {
	t.Parallel()
	one, two, _, _ := twoWorkers(t)
	for range 8 {
		r := request()
		var noted atomic.Bool
		var all sync.WaitGroup
		for i, s := range []vectors.Store{one, two, one, two} {
			all.Go(func() {
				for n := range 10 {
					if i == 1 && n == 4 {
						if err := two.Expect(context.Background(), r); err != nil {
							t.Error(err)
						}
						noted.Store(true)
					}
					before := noted.Load()
					h, err := s.Compare(context.Background(), r)
					if err != nil {
						t.Error(err)
					}
					if before && h.Streak != vectors.StreakPossible {
						t.Errorf("a comparison after the note says %d", h.Streak)
					}
				}
			})
		}
		all.Wait()
	}
}
