package turns

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// one is room for one request, and for two that wait.
func one() *Turns {
	t := newTurns(1, 1, 2, func() bool { return false })
	t.limit = 1
	return t
}

func TestRequestsWaitTheirTurnInOrder(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		turns := one()
		if err := turns.Take(t.Context()); err != nil {
			t.Fatal(err)
		}
		order := make(chan int, 2)
		for i := range 2 {
			go func() {
				if err := turns.Take(t.Context()); err != nil {
					t.Error(err)
				}
				order <- i
			}()
			synctest.Wait()
		}
		if err := turns.Take(t.Context()); !errors.Is(err, ErrBusy) {
			t.Errorf("one more than may wait: %v", err)
		}
		for want := range 2 {
			turns.Give()
			if got := <-order; got != want {
				t.Errorf("request %d had its turn instead of %d", got, want)
			}
		}
		turns.Give()
		if err := turns.Take(t.Context()); err != nil {
			t.Errorf("no turn although nobody waits: %v", err)
		}
	})
}

func TestATurnThatDoesNotComeIsNotWaitedForLong(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		turns, began := one(), time.Now()
		if err := turns.Take(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := turns.Take(t.Context()); !errors.Is(err, ErrBusy) || time.Since(began) != Patience {
			t.Errorf("%v after %s", err, time.Since(began))
		}
		ctx, leave := context.WithTimeout(t.Context(), time.Millisecond)
		defer leave()
		if err := turns.Take(ctx); !errors.Is(err, context.DeadlineExceeded) || turns.waiting.Len() != 0 {
			t.Errorf("of a client that left: %v, and %d wait", err, turns.waiting.Len())
		}
	})
}

func TestTheLimitFollowsTheProcessors(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		starved := true
		turns := newTurns(4, 64, 100, func() bool { return starved })
		for range 40 {
			go func() { _ = turns.Take(t.Context()) }()
		}
		synctest.Wait()
		give := func() {
			<-time.After(lookEvery)
			turns.Give()
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
