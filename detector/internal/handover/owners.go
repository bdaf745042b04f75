// Package handover gives contended records an owner: while several detectors update one record
// at the same time, one of them makes all the updates and the others hand theirs over to it.
//
// Gateways send all checks of a caller to one detector. Several detectors write a record if
// many callers share it, such as the budget of a tenant, while detectors come and go, or if a
// caller sends very many requests. With compare-and-set, the detector nearest to the server
// then wins almost every write, and the others spend their time on conflicts. So a record with
// conflicts belongs to one detector for a while. Detectors that disagree on the owner lose only
// time: writes stay compare-and-set.
//
// The package does not know what is counted.
package handover

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/unloop/unloop/schemas/kit/fleet"
)

const (
	// hot is the time after a conflict for which a key belongs to one detector.
	hot = 5 * time.Second
	// maxHot bounds the keys that are remembered.
	maxHot = 10_000
)

// Owners knows which keys belong to one detector, and to which. It is safe for concurrent
// use.
type Owners struct {
	self  string
	fleet *fleet.Fleet
	now   func() time.Time

	mu  sync.Mutex
	hot map[string]time.Time // the time until which a key belongs to one detector
	// firstOver is the earliest time at which a hot key may expire.
	firstOver time.Time
	// contended is the number of hot keys, to be read without the lock.
	contended atomic.Int64
}

// NewOwners returns the owners of keys as the detector with the given name sees them.
func NewOwners(self string, f *fleet.Fleet, now func() time.Time) *Owners {
	return &Owners{self: self, fleet: f, now: now, hot: map[string]time.Time{}}
}

// Contended records that another detector wrote a key between two writes of this one.
func (o *Owners) Contended(bucket, key string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	now, name := o.now(), bucket+"/"+key
	if len(o.hot) >= maxHot && o.firstOver.Before(now) {
		o.sweep(now)
	}
	if _, known := o.hot[name]; known || len(o.hot) < maxHot {
		o.hot[name] = now.Add(hot)
		o.contended.Store(int64(len(o.hot)))
	}
}

// sweep removes expired keys and records when the next one expires.
func (o *Owners) sweep(now time.Time) {
	o.firstOver = now.Add(hot)
	for key, until := range o.hot {
		if until.Before(now) {
			delete(o.hot, key)
		} else if until.Before(o.firstOver) {
			o.firstOver = until
		}
	}
	o.contended.Store(int64(len(o.hot)))
}

// Owner returns the other detector that a key belongs to; "" if this one may write it.
func (o *Owners) Owner(bucket, key string) string {
	if o.contended.Load() == 0 {
		return ""
	}
	name := bucket + "/" + key
	o.mu.Lock()
	until, isHot := o.hot[name]
	if now := o.now(); isHot && until.Before(now) {
		o.sweep(now)
		isHot = false
	}
	o.mu.Unlock()
	if !isHot {
		return ""
	}
	if owner := o.fleet.Choose(fleet.Hash(name)).First; owner != o.self {
		return owner
	}
	return ""
}
