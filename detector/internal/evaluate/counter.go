package evaluate

import (
	"cmp"
	"time"

	"github.com/unloop/unloop/detector/internal/counter"
	"github.com/unloop/unloop/detector/internal/workload"
	"github.com/unloop/unloop/schemas"
	"github.com/unloop/unloop/schemas/checkpb"
	"github.com/unloop/unloop/schemas/finding"
)

// maxHits bounds what one message may add to a counter.
const maxHits = 1 << 20

// Counter evaluates one counter of a check.
type Counter struct {
	check   *checkpb.Check
	counter *checkpb.Counter
	hit     counter.Hit
	parts   counter.Parts
	verdict counterVerdict
}

// counterVerdict is the result of a counter's step.
type counterVerdict struct {
	counter.PartVerdict
	At time.Time
}

// NewCounter reads a counter of a check and refuses what no gateway sends.
func NewCounter(check *checkpb.Check, c *checkpb.Counter, judgement workload.Judgement) (*Counter, error) {
	h := &Counter{check: check, counter: c, hit: counter.Hit{
		N: int(min(check.GetHits(), maxHits)), Retry: check.GetRetry(), Incident: conversation(check, c.GetFingerprint()),
		Request: check.GetRequestId(), ID: check.GetHit(), Asked: check.GetAsked(), Key: check.GetIdempotency(), Rounds: int(c.GetRounds()), Sample: c.GetSample(), Messages: int(c.GetMessages()),
	}}
	var err error
	if c.GetParted() {
		h.parts, err = counter.PartsFromWire(c)
		h.parts.Usual, h.parts.Since = judgement.Usual, judgement.Since
		if judgement.Apart {
			h.parts.TogetherMark = ""
		}
	} else {
		h.parts.Own, err = counter.FromWire(c)
	}
	return h, err
}

// Key returns the key of the counter's record. That of a fingerprint with parts is named
// by the beginning of the fingerprint, as all keys are.
func (h *Counter) Key() string {
	c := h.counter
	return schemas.CounterKey(c.GetShadow(), c.GetDetector(), c.GetPolicy(), c.GetFingerprint())
}

// Access returns Read for a peek.
func (h *Counter) Access() Access {
	if h.check.GetPeek() {
		return Read
	}
	return Write
}

// Verdict returns what Step leaves for Result.
func (h *Counter) Verdict() any { return &h.verdict }

// Step counts the hit at a time.
func (h *Counter) Step(s counter.State, now time.Time) (counter.State, time.Duration) {
	h.verdict = counterVerdict{At: now}
	if !h.counter.GetParted() {
		s, h.verdict.Verdict = counter.Step(s, h.parts.Own, h.hit, now)
		return s, s.TTL(h.parts.Own, now)
	}
	s, h.verdict.PartVerdict = counter.StepPart(s, h.parts, h.hit, now)
	return s, s.PartsTTL(h.parts, now)
}

// Result returns the count, and a finding if the hit is one.
func (h *Counter) Result() Result {
	v := &h.verdict
	if v.Hint && expected(h.check, h.counter.GetPolicy(), (*checkpb.ToolCall).GetLook) {
		v.Hint, v.Stop = false, false // identical rounds of polls are no loop, and of looks the tool detector knows better
	}
	out := Result{Hits: uint32(v.Count)}
	if !h.counter.GetShadow() {
		out.RetryAfter = v.RetryAfter
	}
	if !v.Fired && !v.Hint && !v.Stop && !v.InTurn && v.Slow == 0 {
		return out
	}
	f := h.finding()
	in := newIncident(h.check, f, v.At)
	in.Conversation, in.Hits = cmp.Or(v.Incident, h.hit.Incident), max(h.hit.N, 1)
	if v.Known {
		in.Hits = 0 // its incident has the request already
	}
	out.Findings, out.Incidents = []*checkpb.Finding{f}, []Incident{in}
	if v.Began {
		out.Cooldown = &Cooldown{Finding: f, Key: h.Key(), Incident: v.Incident, At: v.At}
		if h.counter.GetParted() {
			out.Cooldown.Part = counter.MarkOf(f.GetFingerprint())
		}
	}
	return out
}

// finding returns the most severe finding of the hit.
func (h *Counter) finding() *checkpb.Finding {
	c, v := h.counter, &h.verdict
	f := &checkpb.Finding{
		Policy: c.GetPolicy(), Detector: c.GetDetector(), Fingerprint: c.GetFingerprint(), Shadow: c.GetShadow(),
		HitCount: uint32(v.Count), Threshold: c.GetThreshold(), WindowSeconds: c.GetWindowSeconds(),
	}
	switch rounds := h.roundsAction(); {
	case v.Fired && v.Action >= rounds:
		h.fired(f)
	case rounds > checkpb.Action_ACTION_ALLOW:
		h.identical(f, rounds)
	case v.InTurn:
		f.Action, f.Rule = checkpb.Action_ACTION_WARN, finding.ModelsInTurn
	default:
		f.Action, f.HitCount, f.Threshold, f.WindowSeconds, f.Rule = checkpb.Action_ACTION_WARN, uint32(v.Slow), c.GetSlowHits(), c.GetSlowSeconds(), finding.Slow
	}
	return f
}

// roundsAction returns the action for the rounds at the end of the history: that of the
// last step where they are stopped.
func (h *Counter) roundsAction() checkpb.Action {
	switch {
	case h.verdict.Stop:
		steps := h.parts.Own.Steps
		return max(steps[len(steps)-1].Action, checkpb.Action_ACTION_HINT)
	case h.verdict.Hint:
		return checkpb.Action_ACTION_HINT
	}
	return checkpb.Action_ACTION_ALLOW
}

// identical fills in the finding of rounds at the end of the history.
func (h *Counter) identical(f *checkpb.Finding, action checkpb.Action) {
	c := h.counter
	f.Action, f.HitCount, f.Threshold, f.Rule = action, c.GetRounds(), c.GetHintRounds(), finding.IdenticalRounds
	if action.Stops() {
		f.Threshold = c.GetStopRounds()
	}
	if c.GetComplaint() {
		f.Rule = finding.Complaints
	}
}

// fired fills in the finding of a count that reached its threshold.
func (h *Counter) fired(f *checkpb.Finding) {
	v := &h.verdict
	f.Action, f.CooldownSeconds = v.Action, h.counter.GetCooldownSeconds()
	f.BlockedMs, f.DelayMs = uint32(v.Blocked/time.Millisecond), uint32(v.Delay/time.Millisecond)
	f.RetryAfterMs, f.SinceMs = uint32(v.RetryAfter/time.Millisecond), uint64(v.Since/time.Millisecond)
	for _, age := range v.Ages {
		f.HitAgesMs = append(f.HitAgesMs, uint32(age/time.Millisecond))
	}
	if v.Together {
		f.Fingerprint, f.Threshold, f.Rule = h.counter.GetTogether().GetFingerprint(), h.counter.GetTogether().GetThreshold(), finding.SessionsTogether
	}
}

// CounterKey returns the key of the record of a counter.
func CounterKey(ref *checkpb.CounterRef) string {
	return schemas.CounterKey(ref.GetShadow(), ref.GetDetector(), ref.GetPolicy(), ref.GetFingerprint())
}

// PartOfCounter returns the part of a counter's record that a reference names; "" for the
// whole record.
func PartOfCounter(ref *checkpb.CounterRef) string {
	if ref.GetDetector() != finding.Prompt {
		return ""
	}
	return counter.MarkOf(ref.GetFingerprint())
}

// Excuse returns the update that notes that a counted call got no answer.
func Excuse(c *checkpb.Counter, aborted bool) (Update[counter.State], error) {
	h, err := NewCounter(&checkpb.Check{}, c, workload.Judgement{})
	if err != nil {
		return Update[counter.State]{}, err
	}
	return Update[counter.State]{h.Key(), func(s counter.State, now time.Time) (counter.State, time.Duration) {
		switch {
		case len(s.Parts) > 0:
			return counter.ExcusePart(s, h.parts.Mark, aborted), s.PartsTTL(h.parts, now)
		case s.Count > 0:
			return counter.Excuse(s, aborted), s.TTL(h.parts.Own, now)
		default:
			return s, 0
		}
	}}, nil
}
