// Package standing remembers the blocks in force, so that a gateway refuses a looping agent
// without asking a detector. It knows blocks by their fingerprints, and blocked requests by
// their raw bytes, so that an exact repetition is not even parsed.
//
// It counts nothing itself: it collects the hits on blocks, to be reported to the detectors.
// It has no clock, and knows neither how findings arrive nor what a refusal looks like.
package standing

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"maps"
	"slices"
	"sync"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/unloop/unloop/schemas/checkpb"
)

const (
	// maxBlocks and maxReports bound the memory; requests beyond them are checked like
	// any other.
	maxBlocks  = 100_000
	maxReports = 10_000
	// maxHitsPerReport is the most hits that a detector accepts in one message.
	maxHitsPerReport = 1 << 20
	// lateness is how much later a block may seem to end by a message that was in flight for
	// longer.
	lateness = time.Second
	// usualKey is the size up to which keys and ids of reports need no allocation.
	usualKey = 128
)

// Blocks are the blocks in force, and the hits on them that are not reported yet. Make it
// with New. It is safe for concurrent use.
type Blocks struct {
	mu       sync.Mutex
	standing map[string]*block
	reports  map[string]*checkpb.Check
	released uint64
}

type block struct {
	finding *checkpb.Finding
	learned time.Time
	until   time.Time
	hits    uint32
	// doubted is set if a release may have been missed.
	doubted bool
	// passing computes when the request passes if none is sent before.
	passing passing
	rest    rest
}

// New returns a store without blocks.
func New() *Blocks {
	return &Blocks{standing: map[string]*block{}, reports: map[string]*checkpb.Check{}}
}

// appendKey appends the key of a counter: policy and detector, each preceded by its length,
// and the fingerprint.
func appendKey(b []byte, policy, detector string, fingerprint []byte) []byte {
	return append(appendField(appendField(b, policy), detector), fingerprint...)
}

func appendField(b []byte, field string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(field))), field...)
}

// longest returns the longest block that a counter's parameters allow. A finding with a
// longer one is forged, or older than the policy.
func longest(c *checkpb.Counter) time.Duration {
	return time.Duration(max(c.GetWindowSeconds(), c.GetCooldownSeconds())) * time.Second
}

// Len returns the number of blocks.
func (s *Blocks) Len() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.standing)
}

// Releases returns how often blocks may have been released. A decision during which it
// changes may be older than the release.
func (s *Blocks) Releases() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.released
}

// Stands reports whether a finding blocks further requests.
func Stands(f *checkpb.Finding) bool {
	return !f.GetShadow() && f.GetAction().Stops() && f.GetBlockedMs() > 0
}

// Learn remembers published findings that block further requests.
func (s *Blocks) Learn(now time.Time, findings ...*checkpb.Finding) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.put(now, rest{}, findings)
}

// Confirm remembers a detector's decision on a check: the findings that block further
// requests, and what else stops this one. Doubted blocks of the check's counters that it does
// not confirm have ended.
func (s *Blocks) Confirm(now time.Time, check *checkpb.Check, d *checkpb.Decision) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range check.GetCounters() {
		if len(s.standing) == 0 {
			break
		}
		for _, fingerprint := range [...][]byte{c.GetFingerprint(), c.GetTogether().GetFingerprint()} {
			k := string(appendKey(nil, c.GetPolicy(), c.GetDetector(), fingerprint))
			if b, known := s.standing[k]; known && b.doubted {
				delete(s.standing, k)
			}
		}
	}
	s.put(now, rest{asked: now, answered: true, after: d.GetRetryAfterMs(), lasting: d.GetLasting(), tools: toolsOf(d)}, d.GetFindings())
}

// put remembers the findings that block further requests.
func (s *Blocks) put(now time.Time, with rest, findings []*checkpb.Finding) {
	for _, f := range findings {
		if !Stands(f) {
			continue
		}
		k := string(appendKey(nil, f.GetPolicy(), f.GetDetector(), f.GetFingerprint()))
		until, own := now.Add(time.Duration(f.GetBlockedMs())*time.Millisecond), with
		old, known := s.standing[k]
		if known && !own.answered {
			own = old.rest
		}
		switch {
		case known && !old.doubted && !with.answered && echoes(old.finding, f):
		case known && !old.doubted && until.Sub(old.until) < lateness:
			old.rest = own
		case known || len(s.standing) < maxBlocks:
			s.standing[k] = &block{finding: f, learned: now, until: until, passing: newPassing(f, now), rest: own}
		}
	}
}

// echoes reports whether a published finding is a known one. Its remaining time counts from
// its sending, which may be long ago if this process was suspended.
func echoes(known, published *checkpb.Finding) bool {
	return known.GetLoopId() != "" && known.GetLoopId() == published.GetLoopId() &&
		known.GetHitCount() == published.GetHitCount() && known.GetBlockedMs() == published.GetBlockedMs()
}

// Forget drops blocks that an operator released.
func (s *Blocks) Forget(refs ...*checkpb.CounterRef) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.released++
	clear(s.reports) // hits on released blocks must not bring them back
	for _, ref := range refs {
		delete(s.standing, string(appendKey(nil, ref.GetPolicy(), ref.GetDetector(), ref.GetFingerprint())))
		if len(ref.GetFingerprint()) < sha256.Size { // a record with all its parts
			maps.DeleteFunc(s.standing, func(_ string, b *block) bool {
				f := b.finding
				return f.GetPolicy() == ref.GetPolicy() && f.GetDetector() == ref.GetDetector() && bytes.HasPrefix(f.GetFingerprint(), ref.GetFingerprint())
			})
		}
	}
}

// Doubt is called after releases may have been missed: each block decides again only after a
// detector has confirmed it.
func (s *Blocks) Doubt() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.released++
	clear(s.reports) // hits on released blocks must not bring them back
	for _, b := range s.standing {
		b.doubted = true
	}
}

// Decision returns the decision on a check if one of its counters has an undoubted block. It
// returns nil otherwise, or if a detector must be asked what else stops the request. It keeps
// the hit for the next report, for all counters of the check.
func (s *Blocks) Decision(now time.Time, check *checkpb.Check) *checkpb.Decision {
	return s.decide(now, check, false)
}

// Doubted is Decision for a check that no detector answered: doubted blocks stay in force,
// and nothing else is asked about for restFor.
func (s *Blocks) Doubted(now time.Time, check *checkpb.Check) *checkpb.Decision {
	return s.decide(now, check, true)
}

func (s *Blocks) decide(now time.Time, check *checkpb.Check, doubted bool) *checkpb.Decision {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.standing) == 0 {
		return nil
	}
	blocked := s.blocked(now, check)
	if len(blocked) == 0 {
		return nil
	}
	after, lasting, known := beside(now, check, blocked)
	if !known && !doubted {
		return nil
	}
	out := &checkpb.Decision{RetryAfterMs: after, Lasting: lasting}
	for _, one := range blocked {
		if doubted {
			one.rest.asked = now
		}
		f := one.at(now, check.GetPeek())
		out.Findings = append(out.Findings, f)
		for _, named := range one.rest.tools {
			if named.GetPolicy() == f.GetPolicy() {
				out.Findings = append(out.Findings, proto.CloneOf(named))
			}
		}
		out.Action = max(out.Action, f.GetAction())
		out.RetryAfterMs = max(out.RetryAfterMs, uint64(cmp.Or(f.GetRetryAfterMs(), f.GetBlockedMs())))
	}
	if !check.GetPeek() && !s.report(check) {
		return nil
	}
	return out
}

// hit is a counter of a check with a block in force, and the steps that led to it: its own,
// or those of all sessions together.
type hit struct {
	*block
	counter *checkpb.Counter
	steps   []*checkpb.Step
}

// blocked returns the counters of a check that have blocks in force.
func (s *Blocks) blocked(now time.Time, check *checkpb.Check) (out []hit) {
	for _, c := range check.GetCounters() {
		if c.GetShadow() || !stopping(c.GetSteps()) {
			continue
		}
		if b := s.standingAt(now, c, c.GetFingerprint()); b != nil {
			out = append(out, hit{b, c, c.GetSteps()})
		}
		if t := c.GetTogether(); t != nil {
			if b := s.standingAt(now, c, t.GetFingerprint()); b != nil {
				out = append(out, hit{b, c, t.GetSteps()})
			}
		}
	}
	return out
}

// standingAt returns the block in force for a counter; nil for none.
func (s *Blocks) standingAt(now time.Time, c *checkpb.Counter, fingerprint []byte) *block {
	var room [usualKey]byte
	k := appendKey(room[:0], c.GetPolicy(), c.GetDetector(), fingerprint)
	b, known := s.standing[string(k)]
	if !known {
		return nil
	}
	if last := b.learned.Add(longest(c)); last.Before(b.until) {
		b.until = last
	}
	if b.until.Sub(now) < time.Millisecond {
		delete(s.standing, string(k))
		return nil
	}
	return b
}

// at returns the block's finding at a time. It counts a hit unless it is a peek.
func (h *hit) at(now time.Time, peek bool) *checkpb.Finding {
	b := h.block
	if !peek && !h.counter.GetSample() {
		b.hits++
		b.passing.hit(now)
	}
	left := b.until.Sub(now)
	f := proto.CloneOf(b.finding)
	f.HitCount += b.hits
	f.BlockedMs = uint32(left / time.Millisecond)
	f.RetryAfterMs = b.passing.after(h.counter, h.steps, now, left)
	return f
}

// report adds a hit to the next report; false if there is no room.
func (s *Blocks) report(check *checkpb.Check) bool {
	var room [usualKey]byte
	id := room[:0] // the same for checks with the same counters
	for _, c := range check.GetCounters() {
		id = appendKey(id, c.GetPolicy(), c.GetDetector(), c.GetFingerprint())
		if c.GetSample() {
			id = append(id, 1)
		}
	}
	if r, known := s.reports[string(id)]; known {
		r.Hits = min(r.Hits+1, maxHitsPerReport)
		return true
	}
	if len(s.reports) >= maxReports {
		return false
	}
	r := proto.CloneOf(check)
	r.Hits = 1
	r.Exchange, r.Semantics = nil, nil // texts of blocked requests are not compared
	for _, c := range r.GetCounters() {
		c.Opening = nil // nor are their openings counted
	}
	s.reports[string(id)] = r
	return true
}

// TakeReports returns the hits since the last call, as checks to be counted, and drops
// expired blocks.
func (s *Blocks) TakeReports(now time.Time) []*checkpb.Check {
	s.mu.Lock()
	defer s.mu.Unlock()
	maps.DeleteFunc(s.standing, func(_ string, b *block) bool { return b.until.Before(now) })
	reports := slices.Collect(maps.Values(s.reports))
	clear(s.reports)
	return reports
}
