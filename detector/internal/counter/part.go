package counter

import (
	"bytes"
	"cmp"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/unloop/unloop/detector/internal/hitid"
	"github.com/unloop/unloop/schemas/checkpb"
)

// One prompt may be counted in several ways: for each model, for each session
// that names itself, and for these sessions together. All the counts of a prompt
// are parts of one record, so that a request costs one write.

const (
	// fingerprintSize is the length of a fingerprint. In one that has parts, the first
	// recordSize bytes name the record, the next markHalf the session and the last markHalf the
	// model.
	fingerprintSize = 32
	recordSize      = 16
	markHalf        = 8

	// maxParts bounds the parts of a record; the least recently hit one is removed.
	maxParts = 256
	// maxIDs bounds the ids of hits of all parts, to 4 KiB; those of the least recently hit
	// parts are removed.
	maxIDs = 2 * hitid.MaxIDs
	// maxTurns is the number of newest hits whose part is remembered.
	maxTurns = 4
	// quickly is the time between two turns within which the same answer to the same
	// message is a repeat. A schedule that wakes an agent takes longer.
	quickly = 20 * time.Second
	// maxSlow bounds the hit times of the long window.
	maxSlow = 1000
)

// Part is one count of a record.
type Part struct {
	// Mark is the part's half of the fingerprint, in hex.
	Mark  string
	State State
}

// Parts are the parameters of a record with parts.
type Parts struct {
	// Own are the parameters of the part that the hit belongs to, and Mark its name.
	Own  Params
	Mark string
	// Together are the parameters of the part that counts several sessions together,
	// and TogetherMark its name; empty if there is none.
	Together     Params
	TogetherMark string
	// SlowHits is the count from which on the long window warns; 0 for never.
	SlowHits   int
	SlowLength time.Duration
	// HintRounds is the number of identical rounds from which on there is a hint, and
	// StopRounds that from which on they are stopped; 0 for never. Closed says that they count
	// only if they come quickly.
	HintRounds, StopRounds int
	Closed                 bool
	// Usual says that the prompt is a usual workload of its caller. Since is when this detector
	// first saw the caller: what another detector found before then holds for one more window.
	Usual bool
	Since time.Time
}

// PartVerdict is the result of a hit on a record with parts.
type PartVerdict struct {
	Verdict
	// Together says that the verdict is on all sessions together.
	Together bool
	// Slow is the count of the long window if it warns, else 0.
	Slow int
	// InTurn says that one session sends the prompt to two models in turn.
	InTurn bool
	// Hint says that the request's own history shows one more identical round than
	// any before.
	Hint bool
	// Stop says that it shows as many as are stopped.
	Stop bool
}

// PartsFromWire reads the parameters of a counter whose fingerprint has parts.
func PartsFromWire(c *checkpb.Counter) (p Parts, err error) {
	if p.Own, err = FromWire(c); err != nil {
		return p, err
	}
	p.Mark = MarkOf(c.GetFingerprint())
	p.SlowHits, p.SlowLength = int(c.GetSlowHits()), time.Duration(c.GetSlowSeconds())*time.Second
	p.HintRounds, p.StopRounds, p.Closed = int(c.GetHintRounds()), int(c.GetStopRounds()), c.GetClosed()
	if p.SlowHits < 0 || p.SlowHits > maxSlow || p.SlowLength > maxLength {
		return p, fmt.Errorf("counter slow_hits must be at most %d, and slow_seconds %s", maxSlow, maxLength)
	}
	t := c.GetTogether()
	if t == nil {
		return p, nil
	}
	if len(t.GetFingerprint()) != fingerprintSize || !bytes.Equal(t.GetFingerprint()[:recordSize], c.GetFingerprint()[:recordSize]) {
		return p, errors.New("counter together has no fingerprint of the same record")
	}
	p.Together, p.TogetherMark = p.Own, MarkOf(t.GetFingerprint())
	p.Together.Steps, err = levels(t.GetSteps(), 2*MaxThreshold)
	return p, err
}

// MarkOf returns the mark of a fingerprint's part.
func MarkOf(fingerprint []byte) string {
	return hex.EncodeToString(fingerprint[min(len(fingerprint), recordSize):])
}

// StepPart counts a hit on a record with parts. A session adds to the count of all
// together only until its own fires, so that no session is stopped for another
// one's loop.
func StepPart(s State, p Parts, h Hit, now time.Time) (State, PartVerdict) {
	last := s.Last
	s, at := s.sane(p.Own, now)
	s = s.tidy(p, at)
	now = time.UnixMilli(at) // the record's, for all parts
	if s.Usual > 0 && at < s.Usual+p.Own.Length.Milliseconds() && s.Usual < p.Since.UnixMilli() {
		p = p.usual()
	}
	before := s.part(p.Mark)
	next, v := Step(before, p.Own, h, now)
	if p.Usual && v.Fired {
		s.Usual = at
	}
	out := PartVerdict{Verdict: v}
	quick := before.Last > 0 && at-before.Last < quickly.Milliseconds()
	if !v.Counted { // a replay is not a round, and comes as quickly as its client tries again
		quick = next.Rounds >= h.Rounds
	}
	if quick || !p.Closed {
		out.Stop = p.StopRounds > 0 && h.Rounds >= p.StopRounds
		out.Hint = p.HintRounds > 0 && h.Rounds >= p.HintRounds && h.Rounds > next.Rounds
		next.Rounds = max(next.Rounds, h.Rounds)
	}
	s.put(p.Mark, next)
	if p.TogetherMark != "" {
		out = s.together(p, h, now, out)
	}
	if v.Counted {
		s.Last = at
		out.Slow = s.slow(p, max(h.N, 1), at)
		out.InTurn = s.turn(p, at-last)
	}
	return s, out
}

// usual returns the parameters for a workload, which warns at the most.
func (p Parts) usual() Parts {
	p.Own.Cooldown, p.Own.Steps = 0, slices.Clone(p.Own.Steps)
	for i := range p.Own.Steps {
		p.Own.Steps[i].Action = min(p.Own.Steps[i].Action, checkpb.Action_ACTION_WARN)
	}
	return p
}

// together counts a session's hit with those of the others, unless its own count
// fired.
func (s *State) together(p Parts, h Hit, now time.Time, own PartVerdict) PartVerdict {
	all := s.part(p.TogetherMark)
	var sum Verdict
	if own.Counted && !own.Fired {
		all, sum = Step(all, p.Together, Hit{N: h.N, Incident: h.Incident}, now)
	} else {
		all, sum = look(all, p.Together, h, now)
	}
	s.put(p.TogetherMark, all)
	longest := max(own.RetryAfter, sum.RetryAfter)
	if !own.Fired && sum.Fired {
		sum.Counted, sum.Known = own.Counted, own.Known
		own.Verdict, own.Together = sum, true
	}
	own.RetryAfter = longest
	return own
}

// slow counts hits in the long window, and returns their number if it warns.
func (s *State) slow(p Parts, n int, at int64) int {
	if p.SlowHits == 0 {
		return 0
	}
	for range min(n, p.SlowHits) {
		s.Slow = append(s.Slow, at)
	}
	if s.Slow = s.Slow[max(0, len(s.Slow)-p.SlowHits):]; len(s.Slow) < p.SlowHits {
		return 0
	}
	return len(s.Slow)
}

// turn records which part was hit, and reports whether two models of one session were asked in
// turn, twice. idle is the time since the hit before, in milliseconds.
func (s *State) turn(p Parts, idle int64) bool {
	if idle >= p.Own.Length.Milliseconds() {
		s.Turns = nil
	}
	kept := s.Turns[max(0, len(s.Turns)-maxTurns+1):]
	s.Turns = append(slices.Clone(kept), p.Mark)
	t := s.Turns
	return len(t) == maxTurns && t[0] == t[2] && t[1] == t[3] && t[0] != t[1] && sameSession(t[0], t[1])
}

func sameSession(a, b string) bool {
	const n = 2 * markHalf // hex digits
	return len(a) >= n && len(b) >= n && a[:n] == b[:n]
}

// tidy returns a copy to be changed, without expired parts and hits.
func (s State) tidy(p Parts, at int64) State {
	room := len(s.Parts) + 1
	if p.TogetherMark != "" {
		room++
	}
	kept := make([]Part, 0, room)
	for _, part := range s.Parts {
		if t := part.State; max(t.Last+p.Own.Length.Milliseconds(), t.BlockedUntil) > at {
			kept = append(kept, part)
		}
	}
	s.Parts = kept
	s.Slow = slices.DeleteFunc(slices.Clone(s.Slow), func(hit int64) bool {
		return hit <= at-p.SlowLength.Milliseconds() || hit > at
	})
	s.Slow = s.Slow[max(0, len(s.Slow)-maxSlow):]
	return s
}

// part returns a part's state; the zero State for a new part.
func (s *State) part(mark string) State {
	for i := range s.Parts {
		if s.Parts[i].Mark == mark {
			return s.Parts[i].State
		}
	}
	return State{}
}

// put stores a part's state, and removes the oldest parts if there are too many.
func (s *State) put(mark string, part State) {
	s.Parts = slices.DeleteFunc(s.Parts, func(p Part) bool { return p.Mark == mark })
	s.Parts = append(s.Parts, Part{mark, part}) // in the order of their newest hits
	hits, ids := 0, maxIDs
	for i, p := range slices.Backward(s.Parts) {
		s.Parts[i].State.IDs = p.State.IDs.Newest(ids)
		ids -= s.Parts[i].State.IDs.Len()
		if hits += len(p.State.Hits); len(s.Parts)-i > maxParts || hits > 3*MaxThreshold && i < len(s.Parts)-2 {
			s.Parts = slices.Delete(s.Parts, 0, i+1)
			return
		}
	}
}

// WithBlock returns the state with a block in force, of a part if there is a mark.
func (s State) WithBlock(mark string, until int64, incident string) State {
	if mark == "" {
		s.BlockedUntil, s.Incident = max(s.BlockedUntil, until), cmp.Or(s.Incident, incident)
		return s
	}
	s.Parts = slices.Clone(s.Parts)
	i := slices.IndexFunc(s.Parts, func(p Part) bool { return p.Mark == mark })
	if i < 0 {
		i, s.Parts = len(s.Parts), append(s.Parts, Part{Mark: mark})
	}
	s.Parts[i].State = s.Parts[i].State.WithBlock("", until, incident)
	return s
}

// ExcusePart is Excuse for one part of a record.
func ExcusePart(s State, mark string, aborted bool) State {
	s.Parts = slices.Clone(s.Parts)
	for i := range s.Parts {
		if s.Parts[i].Mark == mark {
			s.Parts[i].State = Excuse(s.Parts[i].State, aborted)
		}
	}
	if n := len(s.Turns); n > 0 && s.Turns[n-1] == mark {
		s.Turns = s.Turns[:n-1]
	}
	return s
}

// PartsTTL returns how long a record with parts can still matter.
func (s State) PartsTTL(p Parts, now time.Time) time.Duration {
	longest := time.Second
	for _, part := range s.Parts {
		longest = max(longest, part.State.TTL(p.Own, now))
	}
	if n := len(s.Slow); n > 0 {
		left := time.Duration(s.Slow[n-1]-now.UnixMilli())*time.Millisecond + p.SlowLength
		longest = max(longest, left.Truncate(time.Second)+time.Second)
	}
	return longest
}

// Released returns the state without the hits and the block of a part, for an operator;
// without a mark, of the whole record. What is counted together restarts with it,
// unless it blocks under another incident.
func Released(s State, mark string, now time.Time) State {
	at := max(now.UnixMilli(), s.Last)
	out := State{Last: at}
	if mark == "" {
		return out
	}
	released := s.part(mark)
	for _, p := range s.Parts {
		together := strings.HasPrefix(p.Mark, noSession) && (p.State.BlockedUntil <= at || p.State.Incident == released.Incident)
		if p.Mark != mark && !together {
			out.Parts = append(out.Parts, p)
		}
	}
	if len(out.Parts) > 0 {
		out.Slow = s.Slow
	}
	return out
}

// noSession is the session's half of the mark of a part that counts several together.
var noSession = strings.Repeat("0", 2*markHalf)
