package evaluate

import (
	"encoding/hex"
	"errors"
	"time"

	"github.com/unloop/unloop/detector/internal/incident"
	"github.com/unloop/unloop/detector/internal/limit"
	"github.com/unloop/unloop/schemas"
	"github.com/unloop/unloop/schemas/checkpb"
	"github.com/unloop/unloop/schemas/finding"
)

const (
	// breakerKept is how long an incident stays open after the end of its breaker's
	// open time, so that the request that closes the breaker finds it.
	breakerKept = time.Hour
	// untilReset is how long the incident of a breaker is kept that stays open until
	// an operator resets it.
	untilReset = 365 * 24 * time.Hour
	// maxAgeMs bounds the age of a correction to a year, in milliseconds.
	maxAgeMs = 366 * 24 * 60 * 60 * 1000
)

// Limit evaluates one rule of a check.
type Limit struct {
	check   *checkpb.Check
	limit   *checkpb.Limit
	params  limit.Params
	verdict limitVerdict
}

// limitVerdict is the result of a rule's step.
type limitVerdict struct {
	limit.Verdict
	At time.Time
}

// NewLimit reads a rule of a check and refuses what no gateway sends.
func NewLimit(check *checkpb.Check, l *checkpb.Limit) (*Limit, error) {
	params, err := limit.FromWire(l)
	return &Limit{check: check, limit: l, params: params}, err
}

// Key returns the key of the rule's record.
func (l *Limit) Key() string { return limitKey(l.limit) }

func limitKey(l *checkpb.Limit) string {
	return schemas.LimitKey(l.GetShadow(), l.GetPolicy(), l.GetRule(), l.GetKey())
}

// Lasts reports whether a rule is a budget or circuit breaker, whose record outlives the
// requests that it counts.
func Lasts(l *checkpb.Limit) bool {
	return l.GetBudget() != nil || l.GetRule() == finding.CircuitBreaker
}

// Access returns Read for a peek and for a request that is too large for its rule, and
// None for answers from memory, which cost no tokens and no money.
func (l *Limit) Access() Access {
	switch {
	case l.check.GetPeek() || l.limit.GetOversized():
		return Read
	case l.check.GetHits() > 0 && l.limit.GetEstimated():
		return None
	}
	return Write
}

// Verdict returns what Step leaves for Result.
func (l *Limit) Verdict() any { return &l.verdict }

// Step takes the cost of the request, or of requests that a gateway answered from
// memory.
func (l *Limit) Step(s limit.State, now time.Time) (limit.State, time.Duration) {
	l.verdict = limitVerdict{At: now}
	switch {
	case l.Access() == Read:
		_, l.verdict.Verdict = limit.Step(s, l.params, l.limit.GetCost(), now)
		return s, 0
	case l.check.GetHits() > 0:
		s = limit.Drain(s, l.params, l.limit.GetCost()*float64(min(l.check.GetHits(), maxHits)), now)
		return s, s.TTL(l.params, now)
	}
	return l.take(s, now)
}

// take takes a request's cost, unless an earlier check of the request took it. A
// reject by a bucket that no correction refills changes nothing, so its record is only
// looked at.
func (l *Limit) take(s limit.State, now time.Time) (limit.State, time.Duration) {
	checked := len(s.Asked)
	s, l.verdict.Verdict = limit.Take(s, l.params, limit.Request{Cost: l.limit.GetCost(), ID: l.check.GetRequestId(), Hit: l.check.GetHit(), Asked: l.check.GetAsked()}, now)
	if l.verdict.Action == checkpb.Action_ACTION_REJECT && !l.limit.GetEstimated() && !l.verdict.Opened && len(s.Asked) == checked {
		return s, 0
	}
	return s, s.TTL(l.params, now)
}

// Result returns the rule's verdict.
func (l *Limit) Result() Result {
	switch {
	case l.Access() == Read:
		if l.limit.GetOversized() {
			l.verdict.Action, l.verdict.RetryAfter = checkpb.Action_ACTION_REJECT, 0
		}
		out := l.result()
		out.Limit.Taken = false
		return out
	case l.check.GetHits() > 0:
		return Result{Limit: &checkpb.LimitVerdict{}}
	}
	out := l.result()
	if l.params.Breaker != nil {
		out.Incidents = l.incidents(out.Limit)
	}
	return out
}

// result returns the verdict, and the time until the rule accepts a rejected request.
func (l *Limit) result() Result {
	out := Result{Limit: l.verdict.Wire()}
	if l.verdict.Action.Stops() && !l.limit.GetShadow() {
		out.RetryAfter, out.Lasting = l.verdict.RetryAfter, l.verdict.RetryAfter <= 0
	}
	return out
}

// incidents returns the beginning or the end of a breaker's incident, or both.
func (l *Limit) incidents(verdict *checkpb.LimitVerdict) (out []Incident) {
	// Without a record, a breaker that would have stayed open was closed by an operator.
	if l.verdict.Closed || l.verdict.Fresh && l.params.Breaker.Reset == 0 {
		over := l.incident(verdict)
		over.Over = true
		out = append(out, over)
	}
	if l.verdict.Action == checkpb.Action_ACTION_REJECT {
		out = append(out, l.incident(verdict))
	}
	return out
}

// incident returns an open breaker for its incident, which stays open for as long as
// the breaker.
func (l *Limit) incident(verdict *checkpb.LimitVerdict) Incident {
	v := &l.verdict
	in := newIncident(l.check, &checkpb.Finding{
		Policy: l.limit.GetPolicy(), Detector: finding.CircuitBreaker, Shadow: l.limit.GetShadow(), Action: checkpb.Action_ACTION_REJECT,
		Fingerprint: l.limit.GetKey(), WindowSeconds: uint32(v.Window / time.Second), CooldownSeconds: uint32(v.RetryAfter / time.Second),
	}, v.At)
	in.LoopID, in.Conversation = &verdict.LoopId, hex.EncodeToString(l.limit.GetKey())
	in.Count, in.Threshold, in.Related, in.Excerpt = int(v.Limit-v.Remaining), int(v.Limit), nil, ""
	if in.Kept = untilReset + breakerKept; v.RetryAfter > 0 {
		in.Kept = v.RetryAfter + breakerKept
	}
	return in
}

// Correct returns the update that replaces an estimated cost with the real one.
func Correct(c *checkpb.Correction) (Update[limit.State], error) {
	params, err := limit.FromWire(c.GetLimit())
	if err == nil {
		err = limit.CheckDelta(c.GetDelta())
	}
	if err != nil {
		return Update[limit.State]{}, errors.Join(ErrMalformed, err)
	}
	age := time.Duration(min(c.GetAgeMs(), maxAgeMs)) * time.Millisecond
	return Update[limit.State]{limitKey(c.GetLimit()), func(s limit.State, now time.Time) (limit.State, time.Duration) {
		if s.IDs.Has(c.GetHit()) {
			return s, 0
		}
		s.IDs = s.IDs.With(c.GetHit())
		id := c.GetRequestId()
		if id == "" {
			s = limit.Correct(s, params, c.GetDelta(), now.Add(-age), now)
			return s, s.TTL(params, now)
		}
		withdrawn, found := limit.Withdraw(s, params, c.GetDelta(), id, now.Add(-age), now)
		if !found {
			return s, 0
		}
		return withdrawn, withdrawn.TTL(params, now)
	}}, nil
}

// ResetBreaker returns the update that closes a circuit breaker, for an operator, and
// its open incident.
func ResetBreaker(ref *checkpb.CounterRef) (Update[limit.State], incident.Finding) {
	l := &checkpb.Limit{Policy: ref.GetPolicy(), Rule: finding.CircuitBreaker, Key: ref.GetFingerprint(), Shadow: ref.GetShadow()}
	return Update[limit.State]{limitKey(l), func(limit.State, time.Time) (limit.State, time.Duration) {
			return limit.State{}, time.Second
		}}, incident.Finding{
			Conversation: hex.EncodeToString(ref.GetFingerprint()), Policy: ref.GetPolicy(), Shadow: ref.GetShadow(),
		}
}
