// Package blocks remembers which blocks stand, so that a gateway refuses a looping agent
// without asking a detector. A block is known by the fingerprint that it is for, and a
// blocked request by its raw bytes, so that an exact repetition is not even parsed.
//
// It counts nothing itself: it remembers findings of detectors, and hands the hits on them
// out to be reported. It has no clock, and knows neither how findings arrive nor how a
// refusal looks.
package blocks

import (
	"bytes"
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
	// maxHitsPerReport is the most that a detector accepts in one message.
	maxHitsPerReport = 1 << 20
	// usualKey is room for a key, or for a report's id, without an allocation.
	usualKey = 128
)

// Standing are the blocks that stand, by fingerprint, and the hits on them that no
// detector knows yet. Make it with New; many goroutines may use it at once.
type Standing struct {
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
	// doubted says that a release may have been missed since.
	doubted bool
	// passing is when the request passes if no other is sent.
	passing passing
}

// New returns a store without blocks.
func New() *Standing {
	return &Standing{standing: map[string]*block{}, reports: map[string]*checkpb.Check{}}
}

// appendKey appends the key of a counter: policy, detector and fingerprint, the first two
// behind their length.
func appendKey(b []byte, policy, detector string, fingerprint []byte) []byte {
	return append(appendField(appendField(b, policy), detector), fingerprint...)
}

func appendField(b []byte, field string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(field))), field...)
}

// longest is how long a counter's own parameters let it block. A finding that says more
// is forged, or older than the policy.
func longest(c *checkpb.Counter) time.Duration {
	return time.Duration(max(c.GetWindowSeconds(), c.GetCooldownSeconds())) * time.Second
}

// Len is the number of blocks.
func (s *Standing) Len() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.standing)
}

// Releases counts the calls of Forget and Doubt: a decision that was made meanwhile may be older
// than the release.
func (s *Standing) Releases() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.released
}

// Stands reports whether a finding blocks what comes after it.
func Stands(f *checkpb.Finding) bool {
	return !f.GetShadow() && f.GetAction().Stops() && f.GetBlockedMs() > 0
}

// Learn remembers the findings that block what comes after them.
func (s *Standing) Learn(now time.Time, findings ...*checkpb.Finding) {
	s.Confirm(now, nil, findings...)
}

func (s *Standing) put(now time.Time, f *checkpb.Finding) {
	k := string(appendKey(nil, f.GetPolicy(), f.GetDetector(), f.GetFingerprint()))
	until := now.Add(time.Duration(f.GetBlockedMs()) * time.Millisecond)
	old, known := s.standing[k]
	if known && !old.doubted && !old.until.Before(until) || !known && len(s.standing) >= maxBlocks {
		return
	}
	s.standing[k] = &block{finding: f, learned: now, until: until, passing: newPassing(f, now)}
}

// Forget drops blocks that an operator released.
func (s *Standing) Forget(refs ...*checkpb.CounterRef) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.released++
	clear(s.reports) // hits on what was released must not bring it back
	for _, ref := range refs {
		delete(s.standing, string(appendKey(nil, ref.GetPolicy(), ref.GetDetector(), ref.GetFingerprint())))
		if len(ref.GetFingerprint()) < sha256.Size { // of a record and all its parts
			maps.DeleteFunc(s.standing, func(_ string, b *block) bool {
				f := b.finding
				return f.GetPolicy() == ref.GetPolicy() && f.GetDetector() == ref.GetDetector() && bytes.HasPrefix(f.GetFingerprint(), ref.GetFingerprint())
			})
		}
	}
}

// Doubt notes that releases may have been missed: a detector is to be asked about each
// block before it decides again.
func (s *Standing) Doubt() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.released++
	clear(s.reports) // hits on what was released must not bring it back
	for _, b := range s.standing {
		b.doubted = true
	}
}

// Confirm takes the findings of a detector's decision on a check. The doubted blocks of
// its counters that are not among them have ended.
func (s *Standing) Confirm(now time.Time, check *checkpb.Check, findings ...*checkpb.Finding) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range check.GetCounters() {
		for _, fingerprint := range [...][]byte{c.GetFingerprint(), c.GetTogether().GetFingerprint()} {
			k := string(appendKey(nil, c.GetPolicy(), c.GetDetector(), fingerprint))
			if b, known := s.standing[k]; known && b.doubted {
				delete(s.standing, k)
			}
		}
	}
	for _, f := range findings {
		if Stands(f) {
			s.put(now, f)
		}
	}
}

// Decision returns the decision on a check if one of its counters is blocked beyond doubt,
// and otherwise nil. It keeps the hit for the next report, for all counters of the check.
func (s *Standing) Decision(now time.Time, check *checkpb.Check) *checkpb.Decision {
	return s.decision(now, check, false)
}

// Doubted is Decision for a check that no detector has answered: doubted blocks stand.
func (s *Standing) Doubted(now time.Time, check *checkpb.Check) *checkpb.Decision {
	return s.decision(now, check, true)
}

func (s *Standing) decision(now time.Time, check *checkpb.Check, doubted bool) *checkpb.Decision {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.standing) == 0 || !doubted && s.anyDoubted(check) {
		return nil
	}
	var out *checkpb.Decision
	for _, c := range check.GetCounters() {
		if c.GetShadow() || !stopping(c.GetSteps()) {
			continue
		}
		for _, f := range s.findings(now, c, check.GetPeek()) {
			if out == nil {
				out = &checkpb.Decision{}
			}
			out.Findings = append(out.Findings, f)
			out.Action = max(out.Action, f.GetAction())
		}
	}
	if out != nil && !check.GetPeek() && !s.report(check) {
		return nil
	}
	return out
}

// anyDoubted reports whether a block of the check's counters is doubted.
func (s *Standing) anyDoubted(check *checkpb.Check) bool {
	var room [usualKey]byte
	for _, c := range check.GetCounters() {
		for _, fingerprint := range [...][]byte{c.GetFingerprint(), c.GetTogether().GetFingerprint()} {
			if b := s.standing[string(appendKey(room[:0], c.GetPolicy(), c.GetDetector(), fingerprint))]; b != nil && b.doubted {
				return true
			}
		}
	}
	return false
}

// findings are those that block a counter, or the sessions together that it is one of.
func (s *Standing) findings(now time.Time, c *checkpb.Counter, peek bool) (out []*checkpb.Finding) {
	if f := s.finding(now, c, c.GetFingerprint(), c.GetSteps(), peek); f != nil {
		out = append(out, f)
	}
	if t := c.GetTogether(); t != nil {
		if f := s.finding(now, c, t.GetFingerprint(), t.GetSteps(), peek); f != nil {
			out = append(out, f)
		}
	}
	return out
}

func (s *Standing) finding(now time.Time, c *checkpb.Counter, fingerprint []byte, steps []*checkpb.Step, peek bool) *checkpb.Finding {
	var room [usualKey]byte
	k := appendKey(room[:0], c.GetPolicy(), c.GetDetector(), fingerprint)
	b, known := s.standing[string(k)]
	if !known {
		return nil
	}
	if last := b.learned.Add(longest(c)); last.Before(b.until) {
		b.until = last
	}
	left := b.until.Sub(now)
	if left < time.Millisecond {
		delete(s.standing, string(k))
		return nil
	}
	if !peek && !c.GetSample() {
		b.hits++
		b.passing.hit(now)
	}
	f := proto.CloneOf(b.finding)
	f.HitCount += b.hits
	f.BlockedMs = uint32(left / time.Millisecond)
	f.RetryAfterMs = b.passing.after(c, steps, now, left)
	return f
}

// report adds a hit to the next report. It returns false when there is no room.
func (s *Standing) report(check *checkpb.Check) bool {
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
	r.Exchange, r.Semantics = nil, nil // the text of a blocked request is not compared
	s.reports[string(id)] = r
	return true
}

// TakeReports hands out the hits since the last call, as checks to be counted, and drops
// blocks that are over.
func (s *Standing) TakeReports(now time.Time) []*checkpb.Check {
	s.mu.Lock()
	defer s.mu.Unlock()
	maps.DeleteFunc(s.standing, func(_ string, b *block) bool { return b.until.Before(now) })
	reports := slices.Collect(maps.Values(s.reports))
	clear(s.reports)
	return reports
}
