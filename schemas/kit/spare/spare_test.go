package spare

import (
	"sync"
	"testing"
	"testing/synctest"
)

func TestGoroutinesAreUsedAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := New()
		var all sync.WaitGroup
		release := make(chan struct{})
		for range 2 * maxSpare {
			all.Add(1)
			g.Go(func() { defer all.Done(); <-release })
		}
		close(release)
		all.Wait()
		synctest.Wait()
		if n := g.waiting.Load(); n != maxSpare {
			t.Errorf("%d goroutines wait, want %d", n, maxSpare)
		}
		hold := make(chan struct{})
		g.Go(func() { <-hold })
		synctest.Wait()
		if n := g.waiting.Load(); n != maxSpare-1 {
			t.Errorf("while a function runs, %d goroutines wait", n)
		}
		g.Stop()
		g.Stop()
		close(hold)
		synctest.Wait() // a goroutine that is left would fail the test
		if n := g.waiting.Load(); n != 0 {
			t.Errorf("%d goroutines wait after their end", n)
		}
	})
}

func TestFunctionsRunAfterTheEndAndWithoutGoroutines(t *testing.T) {
	t.Parallel()
	stopped := New()
	stopped.Stop()
	for _, g := range []*Goroutines{nil, stopped} {
		ran := make(chan struct{})
		g.Go(func() { close(ran) })
		<-ran
	}
}
