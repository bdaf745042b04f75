package checker

import (
	"hash/maphash"
	"sync"
	"time"

	"github.com/unloop/unloop/schemas/bounded"
	"github.com/unloop/unloop/schemas/checkpb"
)

const (
	// A prompt is frequent if it came at least oftenFrom times within oftenWithin.
	oftenWithin = 10 * time.Second
	oftenFrom   = 2
	// maxRepeats bounds the prompts that are remembered.
	maxRepeats = 10_000
	// maxPatient bounds the checks that may wait longer than the timeout at once.
	maxPatient = 1024
	// parted is the length of the prefix of a parted fingerprint that identifies the prompt.
	parted = 16
)

// repeats counts recent prompts. It only keeps hashes: after a collision, a prompt may wait
// longer than necessary.
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

// often counts a check, and reports whether any of its prompts is frequent.
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

// patient counts a check. If its prompt is frequent, patient returns the time until which the
// check may wait beyond the timeout: on a busy machine, a loop would pass otherwise. It
// returns zero for other checks. For a nonzero result the caller must decrement patients
// afterwards.
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
