package wait

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
)

func TestRequestGoesOnAfterItsDelay(t *testing.T) {
	t.Parallel()
	for _, delay := range []time.Duration{0, 500 * time.Millisecond, time.Second, 30 * time.Second} {
		synctest.Test(t, func(t *testing.T) {
			before := time.Now()
			if err := New(1, prometheus.NewRegistry()).Wait(t.Context(), "key", delay); err != nil {
				t.Fatal(err)
			}
			if waited := time.Since(before); waited != delay {
				t.Errorf("waited %s, want %s", waited, delay)
			}
		})
	}
}

func TestRequestWithoutAKeyDoesNotWait(t *testing.T) {
	t.Parallel()
	if err := New(0, prometheus.NewRegistry()).Wait(t.Context(), "", time.Hour); err != nil {
		t.Error(err)
	}
}

func TestWaitEndsWhenTheClientLeaves(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, leave := context.WithTimeout(t.Context(), time.Second)
		defer leave()
		before := time.Now()
		if err := New(1, prometheus.NewRegistry()).Wait(ctx, "key", 30*time.Second); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("ended with %v", err)
		}
		if waited := time.Since(before); waited != time.Second {
			t.Errorf("ended after %s, want as soon as the client left", waited)
		}
	})
}

func TestRequestsThatWaitAreBoundedByKey(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const limit = 3
		r := New(limit, prometheus.NewRegistry())
		var wg sync.WaitGroup
		for range limit {
			wg.Go(func() {
				if err := r.Wait(t.Context(), "key", 10*time.Second); err != nil {
					t.Error(err)
				}
			})
		}
		synctest.Wait()
		if held := testutil.ToFloat64(r.held); held != limit {
			t.Errorf("%v requests are counted, want %d", held, limit)
		}
		before := time.Now()
		if err := r.Wait(t.Context(), "key", 10*time.Second); !errors.Is(err, ErrCrowded) || time.Since(before) != 0 {
			t.Errorf("one more than the limit got %v after %s", err, time.Since(before))
		}
		if err := r.Wait(t.Context(), "other", time.Second); err != nil {
			t.Errorf("another key got %v", err)
		}
		wg.Wait()
		if err := r.Wait(t.Context(), "key", time.Second); err != nil {
			t.Errorf("there is no room although nobody waits any more: %v", err)
		}
		if held := testutil.ToFloat64(r.held); held != 0 || len(r.waiting) != 0 {
			t.Errorf("%v requests are counted and %d keys kept although nobody waits", held, len(r.waiting))
		}
	})
}
