package ledger

import (
	"errors"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/unloop/unloop/schemas"
	"github.com/unloop/unloop/schemas/kit/natstest"
)

// trusting returns a ledger that relies on all records that it has seen.
func trusting(t *testing.T, s *natstest.Server, since func() time.Time) *Ledger[tally, *tally] {
	t.Helper()
	return New[tally](s.Service(), schemas.BucketCounters, nil, WithTrust(since))
}

func always() time.Time { return time.Time{} }

// addBehind adds one, and waits until it is told that this is done.
func addBehind(t *testing.T, l *Ledger[tally, *tally], behind bool) error {
	t.Helper()
	done := make(chan error, 1)
	l.StartBehind(t.Context(), "k", add, func() bool { return behind }, func(err error) { done <- err })
	return <-done
}

func holds(t *testing.T, l *Ledger[tally, *tally], want int) {
	t.Helper()
	if got, err := l.Read(t.Context(), "k"); err != nil || got.N != want {
		t.Errorf("the record holds %d, %v; want %d", got.N, err, want)
	}
}

func TestAStepBehindIsStored(t *testing.T) {
	t.Parallel()
	l := trusting(t, natstest.Start(t), always)
	for range 10 {
		if err := addBehind(t, l, true); err != nil {
			t.Fatal(err)
		}
	}
	// What comes after them is stored after them.
	if err := l.Apply(t.Context(), "k", add); err != nil {
		t.Fatal(err)
	}
	holds(t, l, 11)
}

// A step that waits for its write says that there is no server; one behind does not.
func TestOnlyAStepBehindDoesNotWaitForItsWrite(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		behind bool
		since  func() time.Time
		known  bool
		waits  bool
	}{
		"behind":                        {true, always, true, false},
		"it found a loop":               {false, always, true, true},
		"an unknown record":             {true, always, false, true},
		"others may have written since": {true, time.Now, true, true},
	} {
		s := natstest.Start(t)
		l := trusting(t, s, c.since)
		if c.known {
			if err := l.Apply(t.Context(), "k", add); err != nil {
				t.Fatal(err)
			}
		}
		l.conn.Close()
		if err := addBehind(t, l, c.behind); errors.Is(err, ErrUnavailable) != c.waits {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// What another process has written is not changed by a step that was done before that was
// known, and the next one begins with it.
func TestAStepBehindAnotherProcessIsLostAlone(t *testing.T) {
	t.Parallel()
	s := natstest.Start(t)
	l, other := trusting(t, s, always), open(t, s)
	for _, one := range []*Ledger[tally, *tally]{l, other, other} {
		if err := one.Apply(t.Context(), "k", add); err != nil {
			t.Fatal(err)
		}
	}
	if err := addBehind(t, l, true); err != nil {
		t.Fatal(err)
	}
	if err := l.Apply(t.Context(), "k", add); err != nil {
		t.Fatal(err)
	}
	holds(t, other, 4)
	if lost := testutil.ToFloat64(l.metrics.behind); lost != 1 {
		t.Errorf("%g lost steps are counted, want 1", lost)
	}
}
