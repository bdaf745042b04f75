// Package spare is a pool of goroutines: a new one has a small stack, and growing it takes
// longer than many a short function.
//
// It does not know what the functions do.
package spare

import (
	"sync"
	"sync/atomic"
)

// maxSpare bounds the idle goroutines.
const maxSpare = 64

// Goroutines is a pool of goroutines. Make it with New; nil starts a new goroutine for each
// function.
type Goroutines struct {
	// next hands a function to an idle goroutine; waiting is their number.
	next    chan func()
	waiting atomic.Int64
	stopped chan struct{}
	stop    sync.Once
}

// New returns an empty pool of goroutines.
func New() *Goroutines { return &Goroutines{next: make(chan func()), stopped: make(chan struct{})} }

// Go runs a function in an idle goroutine, or in a new one.
func (g *Goroutines) Go(f func()) {
	if g == nil {
		go f()
		return
	}
	select {
	case g.next <- f:
	default:
		go g.run(f)
	}
}

// run runs a function, and then others until the goroutine is no longer needed.
func (g *Goroutines) run(f func()) {
	for f != nil {
		f()
		f = g.more()
	}
}

// more waits for a function; nil if enough goroutines already wait, or the pool was stopped.
func (g *Goroutines) more() func() {
	defer g.waiting.Add(-1)
	if g.waiting.Add(1) > maxSpare {
		return nil
	}
	select {
	case f := <-g.next:
		return f
	case <-g.stopped:
		return nil
	}
}

// Stop ends idle goroutines, and busy ones after their function. Later functions run in new
// goroutines.
func (g *Goroutines) Stop() { g.stop.Do(func() { close(g.stopped) }) }
