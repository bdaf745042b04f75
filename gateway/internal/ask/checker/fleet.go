package checker

import (
	"sync"
	"time"

	"github.com/unloop/unloop/schemas"
)

const (
	// silentAfter is how long a detector may miss its beats before it gets no more
	// checks.
	silentAfter = 6 * schemas.BeatEvery
	// forgetAfter is how long a silent detector is remembered.
	forgetAfter = time.Minute
	// maxFleet bounds the detectors that are known.
	maxFleet = 256
)

// fleet knows the live detectors and their last heartbeats. A frozen detector stays in the
// queue group and would get its share of checks; it gets none if checks are sent to
// detectors by name.
type fleet struct {
	mu    sync.Mutex
	heard map[string]time.Time
	names []string
	turn  int
}

func newFleet() *fleet { return &fleet{heard: map[string]time.Time{}} }

// hear notes a beat.
func (f *fleet) hear(name string) {
	if !schemas.IsDetectorName(name) {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if _, known := f.heard[name]; !known {
		f.prune()
		if len(f.names) >= maxFleet {
			return
		}
		f.names = append(f.names, name)
	}
	f.heard[name] = time.Now()
}

// prune forgets detectors that are gone; the lock is held.
func (f *fleet) prune() {
	kept := f.names[:0]
	for _, name := range f.names {
		if time.Since(f.heard[name]) < forgetAfter {
			kept = append(kept, name)
		} else {
			delete(f.heard, name)
		}
	}
	f.names = kept
}

// next returns the next of the detectors that beat, in turn; "" if there is none, so that
// the queue group chooses.
func (f *fleet) next(except string) string {
	f.mu.Lock()
	defer f.mu.Unlock()
	for range f.names {
		f.turn = (f.turn + 1) % len(f.names)
		name := f.names[f.turn]
		if name != except && time.Since(f.heard[name]) < silentAfter {
			return name
		}
	}
	return ""
}

// unknown reports whether no detector was heard yet.
func (f *fleet) unknown() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.names) == 0
}

// silent reports whether a detector has stopped beating.
func (f *fleet) silent(name string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return time.Since(f.heard[name]) >= silentAfter
}

// gone marks a detector as silent: nobody subscribes to its name.
func (f *fleet) gone(name string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if _, known := f.heard[name]; known {
		f.heard[name] = time.Time{}
	}
}
