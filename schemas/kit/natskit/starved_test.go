package natskit

import (
	"runtime"
	"sync"
	"testing"
	"time"
)

// It runs alone: goroutines of other tests that wait for no processor would count as well.
func TestAProcessWithMoreWorkThanProcessorsIsStarved(t *testing.T) { //nolint:paralleltest // see above
	var s Starvation
	s.Since()
	var work sync.WaitGroup
	for range 16 * runtime.GOMAXPROCS(0) {
		work.Go(func() {
			for range 5 { // goroutines that take a processor for long, and leave it
				for began := time.Now(); time.Since(began) < time.Millisecond; {
				}
				runtime.Gosched()
			}
		})
	}
	work.Wait()
	if !s.Since() {
		t.Error("it is not noticed")
	}
}
