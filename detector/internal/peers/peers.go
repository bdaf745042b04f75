// Package peers decides which of several detectors writes a key that more than one of
// them would write at the same time.
//
// With compare-and-set the detector nearest to the server wins nearly always, and a
// detector that is farther away spends its time on conflicts. So a key with conflicting
// writes belongs to one detector for a while, and the others hand their updates to that
// one. Detectors that disagree on the owner of a key lose only time: writes stay
// compare-and-set.
//
// The package knows neither the meaning of keys nor messages and connections. Its caller
// reports which detectors are alive.
package peers

import (
	"hash/fnv"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// Every is the time between two announcements of a detector.
	Every = time.Second
	// silence is the time after which a detector without announcements counts as gone.
	silence = 3 * Every
	// hot is the time after a conflict for which a key belongs to one detector.
	hot = 5 * time.Second
	// maxHot bounds the keys that are remembered.
	maxHot = 10_000
	// grace is how much the round trip of a detector that owns keys may exceed twice that
	// of the nearest.
	grace = time.Millisecond
)

// Peers are the known detectors. It is safe for concurrent use.
type Peers struct {
	self string
	now  func() time.Time

	mu    sync.Mutex
	peers map[string]peer
	hot   map[string]time.Time // the time until which a key belongs to one detector
	// firstOver is the first time at which one of the hot keys may be over.
	firstOver time.Time
	// contended is the number of hot keys, to be read without the lock.
	contended atomic.Int64
}

// peer is a detector, this one included.
type peer struct {
	roundTrip time.Duration
	until     time.Time
	// avoid is the time until which it owns no keys.
	avoid time.Time
}

// New returns an empty set of peers.
func New(self string, now func() time.Time) *Peers {
	return &Peers{self: self, now: now, peers: map[string]peer{}, hot: map[string]time.Time{}}
}

// Heard notes that a detector is there, and how long its round trips to the server
// take. It returns whether it was unknown.
func (p *Peers) Heard(id string, roundTrip time.Duration) (first bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := p.now()
	for other, one := range p.peers {
		if one.until.Before(now) {
			delete(p.peers, other)
		}
	}
	known, ok := p.peers[id]
	known.roundTrip, known.until = roundTrip, now.Add(silence)
	p.peers[id] = known
	return !ok
}

// Left notes that a detector has gone.
func (p *Peers) Left(id string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.peers, id)
}

// Avoid takes all keys from a detector that did not answer, for a while.
func (p *Peers) Avoid(id string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if known, ok := p.peers[id]; ok {
		known.avoid = p.now().Add(hot)
		p.peers[id] = known
	}
}

// Contended notes that another detector wrote a key between two writes of this one.
func (p *Peers) Contended(bucket, key string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now, name := p.now(), bucket+"/"+key
	if len(p.hot) >= maxHot && p.firstOver.Before(now) {
		p.sweep(now)
	}
	if _, known := p.hot[name]; known || len(p.hot) < maxHot {
		p.hot[name] = now.Add(hot)
		p.contended.Store(int64(len(p.hot)))
	}
}

// sweep forgets the keys whose time is over, and notes when that of the next one is.
func (p *Peers) sweep(now time.Time) {
	p.firstOver = now.Add(hot)
	for key, until := range p.hot {
		if until.Before(now) {
			delete(p.hot, key)
		} else if until.Before(p.firstOver) {
			p.firstOver = until
		}
	}
	p.contended.Store(int64(len(p.hot)))
}

// Owner returns the other detector that a key belongs to; "" if this one may write
// it.
func (p *Peers) Owner(bucket, key string) string {
	if p.contended.Load() == 0 {
		return ""
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	now := p.now()
	name := bucket + "/" + key
	until, isHot := p.hot[name]
	if !isHot {
		return ""
	}
	if until.Before(now) {
		p.sweep(now)
		return ""
	}
	if owner := p.choose(name, now); owner != p.self {
		return owner
	}
	return ""
}

// choose returns the detector with the highest hash of its id and the key among those
// near enough to the server; "" if there is none.
func (p *Peers) choose(name string, now time.Time) (owner string) {
	nearest := time.Duration(-1)
	for _, one := range p.peers {
		if one.usable(now) && (nearest < 0 || one.roundTrip < nearest) {
			nearest = one.roundTrip
		}
	}
	var highest uint64
	for id, one := range p.peers {
		if !one.usable(now) || one.roundTrip > 2*nearest+grace {
			continue
		}
		if rank := rank(id, name); owner == "" || rank > highest || rank == highest && id > owner {
			owner, highest = id, rank
		}
	}
	return owner
}

func (p peer) usable(now time.Time) bool { return !p.until.Before(now) && !p.avoid.After(now) }

func rank(id, name string) uint64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte(name)) // a hash takes all
	_, _ = h.Write([]byte(id))
	// FNV mixes its last bytes into few bits only.
	x := h.Sum64()
	x ^= x >> 33
	x *= 0xff51afd7ed558ccd
	return x ^ x>>33
}
