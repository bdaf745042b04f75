package turns

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/unloop/unloop/gateway/internal/share/fair"
)

// one is room for one request, and for some that wait.
func one(waiting int) *Turns {
	lane := newLane(1, 1, waiting, Patience, func() bool { return false })
	return newTurns(lane, newLane(1, 1, waiting, patienceLarge, func() bool { return false }))
}

// take takes a turn at once.
func take(t *testing.T, turns *Turns, large bool) Turn {
	t.Helper()
	turn, err := turns.Take(t.Context(), 0, large)
	if err != nil {
		t.Fatal(err)
	}
	return turn
}

// queue makes requests of callers wait, and returns the callers as their turns come and end.
func queue(t *testing.T, turns *Turns, large bool, callers string) <-chan rune {
	t.Helper()
	order := make(chan rune, len(callers))
	for _, caller := range callers {
		go func() {
			turn, err := turns.Take(t.Context(), fair.Caller(caller), large)
			if err != nil {
				t.Error(err)
			}
			order <- caller
			turn.Give()
		}()
		synctest.Wait()
	}
	return order
}

func TestCallersHaveTheirTurnsOneAfterAnother(t *testing.T) {
	t.Parallel()
	for _, large := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			turns := one(100)
			first := take(t, turns, large)
			order := queue(t, turns, large, "aaaaabbc")
			first.Give()
			synctest.Wait()
			var got []rune
			for len(order) > 0 {
				got = append(got, <-order)
			}
			if string(got) != "abcabaaa" {
				t.Errorf("large %t: they had their turns in the order %s", large, string(got))
			}
			turn := take(t, turns, large)
			turn.Give()
		})
	}
}

// The flood of one caller leaves places for others to wait at.
func TestOneCallerDoesNotTakeAllPlaces(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		turns := one(8)
		first := take(t, turns, false)
		queue(t, turns, false, "aaaa")
		for range 100 {
			if _, err := turns.Take(t.Context(), 'a', false); !errors.Is(err, ErrBusy) {
				t.Fatalf("a caller took more than half of the places: %v", err)
			}
		}
		queue(t, turns, false, "bbc")
		if _, err := turns.Take(t.Context(), 0, false); !errors.Is(err, ErrBusy) {
			t.Errorf("one more than may wait: %v", err)
		}
		first.Give()
		synctest.Wait()
	})
}

// A large body is read in a turn of its own, which ends before that of the check. Small
// bodies wait for neither those that are read nor those that wait for it.
func TestLargeBodiesHoldUpNoSmallOnes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		turns := newTurns(newLane(4, 4, 100, Patience, func() bool { return false }), newLane(1, 1, 100, patienceLarge, func() bool { return false }))
		reading := take(t, turns, true)
		order := queue(t, turns, true, "aaaaa")
		for range 3 {
			take(t, turns, false)
		}
		if turns.large.queued() != 5 || turns.checks.queued() != 0 {
			t.Errorf("%d wait to be read, and %d to be checked", turns.large.queued(), turns.checks.queued())
		}
		reading.Read()
		reading.Read()
		synctest.Wait()
		if len(order) != 0 || turns.large.queued() != 4 || turns.checks.queued() != 1 {
			t.Errorf("%d wait to be read, and %d to be checked", turns.large.queued(), turns.checks.queued())
		}
		reading.Give()
		reading.Give()
		synctest.Wait()
		if len(order) != 5 || turns.checks.taken != 3 || turns.large.taken != 0 {
			t.Errorf("%d were read; %d turns and %d to read are taken", len(order), turns.checks.taken, turns.large.taken)
		}
	})
}

func TestATurnThatDoesNotComeIsNotWaitedForLong(t *testing.T) {
	t.Parallel()
	for large, patience := range map[bool]time.Duration{false: Patience, true: patienceLarge} {
		synctest.Test(t, func(t *testing.T) {
			turns, began := one(100), time.Now()
			turn := take(t, turns, large)
			if _, err := turns.Take(t.Context(), 1, large); !errors.Is(err, ErrBusy) || time.Since(began) != patience {
				t.Errorf("%v after %s", err, time.Since(began))
			}
			ctx, leave := context.WithTimeout(t.Context(), time.Millisecond)
			defer leave()
			if _, err := turns.Take(ctx, 1, large); !errors.Is(err, context.DeadlineExceeded) || turns.checks.queued()+turns.large.queued() != 0 {
				t.Errorf("of a client that left: %v, and %d wait", err, turns.checks.queued()+turns.large.queued())
			}
			turn.Give()
		})
	}
}

func TestTheLimitFollowsTheProcessors(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		starved := true
		turns := newLane(4, 64, 100, Patience, func() bool { return starved })
		for i := range 40 {
			go func() {
				if one, _ := turns.enter(fair.Caller(i)); one != nil {
					_ = turns.await(t.Context(), one)
				}
			}()
		}
		synctest.Wait()
		give := func() {
			<-time.After(lookEvery)
			turns.give()
		}
		for range 6 {
			give()
		}
		if turns.limit != 4 {
			t.Errorf("the limit of a starved process is %d", turns.limit)
		}
		for starved = false; turns.limit == 4 && turns.waiting.Len() > 0; {
			give()
		}
		if turns.limit <= 4 {
			t.Error("the limit does not rise while requests wait and the processors do not lack")
		}
	})
}
