package natskit

import (
	"runtime"
	"sync"
	"testing"
	"time"
)

func TestAProcessWithMoreWorkThanProcessorsIsStarved(t *testing.T) {
	t.Parallel()
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
