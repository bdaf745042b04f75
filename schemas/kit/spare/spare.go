// Package spare runs functions in goroutines that are used again: a new one has a small
// stack, and growing that costs more than many a short function does.
//
// It does not know what the functions do, nor when they end.
package spare

import (
	"sync"
	"sync/atomic"
)

// maxSpare is how many goroutines wait for a function at most.
const maxSpare = 64

// Goroutines run functions. Make them with New; nil starts a new goroutine for each
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

// Go runs a function in a goroutine that has nothing to do, or in a new one.
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

// run runs a function, and then others as long as the goroutine is to spare.
func (g *Goroutines) run(f func()) {
	for f != nil {
		f()
		f = g.more()
	}
}

// more waits for a function; nil if enough goroutines do, or they are stopped.
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

// Stop ends the goroutines that have nothing to do, and each other one with its function.
// Functions that come later run in goroutines of their own.
func (g *Goroutines) Stop() { g.stop.Do(func() { close(g.stopped) }) }
