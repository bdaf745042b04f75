// Package fleet knows the detectors that beat, and chooses the one that a key belongs to.
//
// The choice is by rendezvous hashing: all that hear the same beats choose the same
// detector, and a detector that comes or goes moves its own keys alone. Whoever is wrong
// about the fleet loses only time: records are written by compare-and-set.
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
	// SilentAfter is how long a detector may miss its beats before it is chosen no more.
	SilentAfter = 6 * schemas.BeatEvery
	// forgetAfter is how long a silent detector is remembered.
	forgetAfter = time.Minute
	// maxKnown bounds the detectors that are known.
	maxKnown = 256
)

// Fleet has the known detectors with their last beats. It is safe for concurrent use.
type Fleet struct {
	now   func() time.Time
	mu    sync.Mutex
	known map[string]*member
	// changed is when a detector was last heard that had been silent.
	changed time.Time
}

type member struct {
	heard, avoid time.Time
	hash         uint64
}

// New returns a fleet without detectors.
func New(now func() time.Time) *Fleet { return &Fleet{now: now, known: map[string]*member{}} }

// Hear notes a detector's beat.
func (f *Fleet) Hear(name string) { f.HearAt(name, f.now()) }

// HearAt notes a detector's beat at a given time.
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

// Changed returns the time when a detector came, or came back after a silence. A key that
// has moved to another detector returns to this one only after such a time.
func (f *Fleet) Changed() time.Time {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.changed
}

// prune forgets detectors that are gone; the lock is held.
func (f *Fleet) prune() {
	now := f.now()
	for name, one := range f.known {
		if now.Sub(one.heard) >= forgetAfter {
			delete(f.known, name)
		}
	}
}

// Choice is the two detectors with the highest hashes of their names and a key, among N
// that beat; "" where there are not so many.
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

// before reports whether a detector comes before another one, "" for none.
func before(rank uint64, name string, than uint64, other string) bool {
	return other == "" || rank > than || rank == than && name > other
}

// Unknown reports whether no detector was heard yet.
func (f *Fleet) Unknown() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.known) == 0
}

// Silent reports whether a detector has stopped beating.
func (f *Fleet) Silent(name string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	one := f.known[name]
	return one == nil || f.now().Sub(one.heard) >= SilentAfter
}

// Gone marks a detector as silent until its next beat: nobody subscribes to its name.
func (f *Fleet) Gone(name string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if one := f.known[name]; one != nil {
		one.heard = time.Time{}
	}
}

// Avoid chooses a detector no more for a while, though it beats.
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
