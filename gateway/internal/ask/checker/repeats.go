package checker

import (
	"hash/maphash"
	"sync"
	"time"

	"github.com/unloop/unloop/schemas/bounded"
	"github.com/unloop/unloop/schemas/checkpb"
)

const (
	// oftenWithin and oftenFrom say when a prompt came often: so many times within that time,
	// this one included. Those before may pass without a decision, and so may those that a
	// policy lets through.
	oftenWithin = 10 * time.Second
	oftenFrom   = 2
	// maxRepeats bounds the prompts that are remembered.
	maxRepeats = 10_000
	// maxPatient is how many checks may wait for longer than the timeout at once.
	maxPatient = 1024
	// parted is the length of the part of a fingerprint that names a prompt.
	parted = 16
)

// repeats knows which prompts came often in the last seconds. It only remembers hashes: if
// two are the same, a prompt waits longer that need not.
type repeats struct {
	seed maphash.Seed
	mu   sync.Mutex
	seen map[uint64]repeat
}

type repeat struct {
	since time.Time
	times int
}

func newRepeats() *repeats { return &repeats{seed: maphash.MakeSeed(), seen: map[uint64]repeat{}} }

// often notes a check, and reports whether one of what it counts came often.
func (r *repeats) often(check *checkpb.Check, now time.Time) (often bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, c := range check.GetCounters() {
		if c.GetShadow() {
			continue
		}
		k := r.key(c)
		seen := r.seen[k]
		if now.Sub(seen.since) > oftenWithin {
			bounded.MakeRoom(r.seen, k, maxRepeats)
			seen = repeat{since: now}
		}
		seen.times++
		r.seen[k] = seen
		often = often || seen.times >= oftenFrom
	}
	return often
}

func (r *repeats) key(c *checkpb.Counter) uint64 {
	var h maphash.Hash
	h.SetSeed(r.seed)
	_, _ = h.WriteString(c.GetPolicy())
	_ = h.WriteByte(0)
	_, _ = h.WriteString(c.GetDetector())
	_ = h.WriteByte(0)
	fingerprint := c.GetFingerprint()
	if c.GetParted() && len(fingerprint) > parted {
		fingerprint = fingerprint[:parted]
	}
	_, _ = h.Write(fingerprint)
	return h.Sum64()
}

// patient notes a check, and returns until when it may wait for a decision beyond the
// timeout, since its prompt came often: on a busy machine, a loop would pass otherwise.
// Zero is no longer than the timeout. The caller gives its place back.
func (c *Checker) patient(check *checkpb.Check, now time.Time) time.Time {
	if check.GetPeek() || !c.repeats.often(check, now) {
		return time.Time{}
	}
	if c.patients.Add(1) > maxPatient {
		c.patients.Add(-1)
		return time.Time{}
	}
	return now.Add(maxWait)
}
