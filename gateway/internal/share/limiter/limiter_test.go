package limiter

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/unloop/unloop/gateway/internal/share/fair"
)

// one is room for one request, and for some that wait.
func one(waiting int) *Limiter {
	lane := newLane(1, 1, waiting, Patience, func() bool { return false })
	return newLimiter(nil, lane, newLane(1, 1, waiting, patienceLarge, func() bool { return false }))
}

// take takes a slot at once.
func take(t *testing.T, slots *Limiter, large bool) Slot {
	t.Helper()
	slot, err := slots.Take(t.Context(), 0, large)
	if err != nil {
		t.Fatal(err)
	}
	return slot
}

// queue makes requests of callers wait, and returns the callers as their slots come and end.
func queue(t *testing.T, slots *Limiter, large bool, callers string) <-chan rune {
	t.Helper()
	order := make(chan rune, len(callers))
	for _, caller := range callers {
		go func() {
			slot, err := slots.Take(t.Context(), fair.Caller(caller), large)
			if err != nil {
				t.Error(err)
			}
			order <- caller
			slot.Give()
		}()
		synctest.Wait()
	}
	return order
}

func TestCallersHaveTheirTurnsOneAfterAnother(t *testing.T) {
	t.Parallel()
	for _, large := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			slots := one(100)
			first := take(t, slots, large)
			order := queue(t, slots, large, "aaaaabbc")
			first.Give()
			synctest.Wait()
			var got []rune
			for len(order) > 0 {
				got = append(got, <-order)
			}
			if string(got) != "abcabaaa" {
				t.Errorf("large %t: they had their slots in the order %s", large, string(got))
			}
			slot := take(t, slots, large)
			slot.Give()
		})
	}
}

// The flood of one caller leaves places for others to wait at.
func TestOneCallerDoesNotTakeAllPlaces(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		slots := one(8)
		first := take(t, slots, false)
		queue(t, slots, false, "aaaa")
		for range 100 {
			if _, err := slots.Take(t.Context(), 'a', false); !errors.Is(err, ErrBusy) {
				t.Fatalf("a caller took more than half of the places: %v", err)
			}
		}
		queue(t, slots, false, "bbc")
		if _, err := slots.Take(t.Context(), 0, false); !errors.Is(err, ErrBusy) {
			t.Errorf("one more than may wait: %v", err)
		}
		first.Give()
		synctest.Wait()
	})
}

// A large body is read in a slot of its own, which ends before that of the check. Small
// bodies wait for neither those that are read nor those that wait for it.
func TestLargeBodiesHoldUpNoSmallOnes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		slots := newLimiter(nil, newLane(4, 4, 100, Patience, func() bool { return false }), newLane(1, 1, 100, patienceLarge, func() bool { return false }))
		reading := take(t, slots, true)
		order := queue(t, slots, true, "aaaaa")
		for range 3 {
			take(t, slots, false)
		}
		if slots.large.queued() != 5 || slots.checks.queued() != 0 {
			t.Errorf("%d wait to be read, and %d to be checked", slots.large.queued(), slots.checks.queued())
		}
		reading.Read()
		reading.Read()
		synctest.Wait()
		if len(order) != 0 || slots.large.queued() != 4 || slots.checks.queued() != 1 {
			t.Errorf("%d wait to be read, and %d to be checked", slots.large.queued(), slots.checks.queued())
		}
		reading.Give()
		reading.Give()
		synctest.Wait()
		if len(order) != 5 || slots.checks.taken != 3 || slots.large.taken != 0 {
			t.Errorf("%d were read; %d slots and %d to read are taken", len(order), slots.checks.taken, slots.large.taken)
		}
	})
}

func TestATurnThatDoesNotComeIsNotWaitedForLong(t *testing.T) {
	t.Parallel()
	for large, patience := range map[bool]time.Duration{false: Patience, true: patienceLarge} {
		synctest.Test(t, func(t *testing.T) {
			slots, began := one(100), time.Now()
			slot := take(t, slots, large)
			if _, err := slots.Take(t.Context(), 1, large); !errors.Is(err, ErrBusy) || time.Since(began) != patience {
				t.Errorf("%v after %s", err, time.Since(began))
			}
			ctx, leave := context.WithTimeout(t.Context(), time.Millisecond)
			defer leave()
			if _, err := slots.Take(ctx, 1, large); !errors.Is(err, context.DeadlineExceeded) || slots.checks.queued()+slots.large.queued() != 0 {
				t.Errorf("of a client that left: %v, and %d wait", err, slots.checks.queued()+slots.large.queued())
			}
			slot.Give()
		})
	}
}

func TestTheLimitFollowsTheProcessors(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		starved := true
		slots := newLane(4, 64, 100, Patience, func() bool { return starved })
		for i := range 40 {
			go func() {
				if one, _ := slots.enter(fair.Caller(i)); one != nil {
					_ = slots.await(t.Context(), one)
				}
			}()
		}
		synctest.Wait()
		give := func() {
			<-time.After(lookEvery)
			slots.give()
		}
		for range 6 {
			give()
		}
		if slots.limit != 4 {
			t.Errorf("the limit of a starved process is %d", slots.limit)
		}
		for starved = false; slots.limit == 4 && slots.waiting.Len() > 0; {
			give()
		}
		if slots.limit <= 4 {
			t.Error("the limit does not rise while requests wait and the processors do not lack")
		}
	})
}
