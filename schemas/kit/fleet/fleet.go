// Package fleet tracks the detectors by their heartbeats, and assigns keys to them.
//
// It uses rendezvous hashing: processes that hear the same heartbeats choose the same
// detector, and a detector that joins or leaves moves only its own keys. A wrong view of the
// fleet only costs time: records are written by compare-and-set.
//
// The package does not know what a key is, and sends nothing.
package fleet

import (
	"hash/fnv"
	"slices"
	"sync"
	"time"

	"github.com/unloop/unloop/schemas"
)

const (
	// SilentAfter is the time without a heartbeat after which a detector is no longer chosen.
	SilentAfter = 6 * schemas.BeatEvery
	// forgetAfter is how long a silent detector is remembered.
	forgetAfter = time.Minute
	// maxKnown bounds the detectors that are known.
	maxKnown = 256
)

// Fleet has the known detectors with their last heartbeats. It is safe for concurrent use.
type Fleet struct {
	now   func() time.Time
	mu    sync.Mutex
	known map[string]*member
	// changed is the last time at which a new or silent detector was heard.
	changed time.Time
}

type member struct {
	heard, avoid time.Time
	hash         uint64
}

// New returns a fleet without detectors.
func New(now func() time.Time) *Fleet { return &Fleet{now: now, known: map[string]*member{}} }

// Hear records a detector's heartbeat.
func (f *Fleet) Hear(name string) { f.HearAt(name, f.now()) }

// HearAt records a detector's heartbeat at a given time.
func (f *Fleet) HearAt(name string, at time.Time) {
	if !schemas.IsDetectorName(name) {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	one := f.known[name]
	if one == nil {
		f.prune()
		if len(f.known) >= maxKnown {
			return
		}
		one = &member{hash: Hash(name)}
		f.known[name] = one
	}
	if at.Sub(one.heard) >= SilentAfter {
		f.changed = at
	}
	one.heard = at
}

// Changed returns the last time at which a detector joined, or came back after a silence. A
// key that has moved away from a detector returns only after such a time.
func (f *Fleet) Changed() time.Time {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.changed
}

// prune removes detectors that are gone; the lock is held.
func (f *Fleet) prune() {
	now := f.now()
	for name, one := range f.known {
		if now.Sub(one.heard) >= forgetAfter {
			delete(f.known, name)
		}
	}
}

// Choice has the two detectors with the highest hashes of name and key among N usable ones;
// "" if there are fewer.
type Choice struct {
	First, Second string
	N             int
}

// Choose returns the choice for a key, without the named detectors.
func (f *Fleet) Choose(key uint64, except ...string) (c Choice) {
	f.mu.Lock()
	defer f.mu.Unlock()
	now := f.now()
	var first, second uint64
	for name, one := range f.known {
		if !one.usable(now) || slices.Contains(except, name) {
			continue
		}
		c.N++
		switch rank := mix(one.hash ^ key); {
		case before(rank, name, first, c.First):
			second, c.Second = first, c.First
			first, c.First = rank, name
		case before(rank, name, second, c.Second):
			second, c.Second = rank, name
		}
	}
	return c
}

func (m *member) usable(now time.Time) bool {
	return now.Sub(m.heard) < SilentAfter && !now.Before(m.avoid)
}

// before reports whether a detector ranks before another one; "" is none.
func before(rank uint64, name string, than uint64, other string) bool {
	return other == "" || rank > than || rank == than && name > other
}

// Unknown reports whether no detector is known.
func (f *Fleet) Unknown() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.known) == 0
}

// Silent reports whether a detector's heartbeats have stopped.
func (f *Fleet) Silent(name string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	one := f.known[name]
	return one == nil || f.now().Sub(one.heard) >= SilentAfter
}

// Gone marks a detector as silent until its next heartbeat: nobody subscribes to its name.
func (f *Fleet) Gone(name string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if one := f.known[name]; one != nil {
		one.heard = time.Time{}
	}
}

// Avoid excludes a detector for a while, despite its heartbeats.
func (f *Fleet) Avoid(name string, d time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if one := f.known[name]; one != nil {
		one.avoid = f.now().Add(d)
	}
}

// Hash returns the hash of a key, the same in each process.
func Hash(key string) uint64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte(key)) // a hash takes all
	return mix(h.Sum64())
}

// mix is the finalizer of MurmurHash3: FNV mixes its last bytes into few bits only.
func mix(x uint64) uint64 {
	x ^= x >> 33
	x *= 0xff51afd7ed558ccd
	x ^= x >> 33
	x *= 0xc4ceb9fe1a85ec53
	return x ^ x>>33
}
