package limit

import (
	"math"
	"time"

	"github.com/unloop/unloop/schemas/checkpb"
)

// Breaker opens when the spend of the last minute reaches its threshold. That spend is
// the one of the current calendar minute, and the share of the minute before that lies
// within 60 seconds. This is Fairvisor's rule.
type Breaker struct {
	// Threshold in cost units a minute, positive.
	Threshold float64
	// Reset is how long it stays open; 0 until its record is removed.
	Reset time.Duration
}

// stepBreaker counts a cost at a time, or rejects it while the breaker is open. The
// request that reaches the threshold is rejected.
func (s State) stepBreaker(b Breaker, cost float64, at int64) (State, Verdict) {
	v := Verdict{Fresh: s.At == 0}
	s, at = s.advance(at)
	s = s.nextMinute(at)
	if s.Opened != 0 && b.Reset > 0 && at-s.Opened >= b.Reset.Milliseconds() {
		s.Opened, v.Closed = 0, true
	}
	if s.Opened == 0 {
		s.Current += max(cost, 0)
		if s.rate(at) >= b.Threshold*(1-slack) {
			s.Opened, v.Opened = at, true
		}
	}
	v.Limit, v.Remaining, v.Reset, v.Window = b.Threshold, max(b.Threshold-s.rate(at), 0), time.Minute, time.Minute
	if s.Opened != 0 {
		v.Action, v.Exceeded, v.Remaining = checkpb.Action_ACTION_REJECT, checkpb.Exceeded_EXCEEDED_BREAKER, 0
		if b.Reset > 0 {
			v.RetryAfter = max(milliseconds(s.Opened+b.Reset.Milliseconds()-at), time.Millisecond)
		}
		v.Reset = v.RetryAfter
	}
	return s, v
}

// advance returns the state as of a time, and that time: no earlier than the record's,
// which is moved back if it is too far ahead.
func (s State) advance(at int64) (State, int64) {
	if ahead := s.At - at; ahead > maxSkew.Milliseconds() {
		s.Minute, s.Opened = at-at%time.Minute.Milliseconds(), max(s.Opened-ahead, 0)
	} else {
		at = max(at, s.At)
	}
	s.At = at
	return s, at
}

// nextMinute returns the state with the spend of the minute of a time.
func (s State) nextMinute(at int64) State {
	length := time.Minute.Milliseconds()
	start := at - at%length
	switch {
	case !finite(s.Current), !finite(s.Previous), start > s.Minute+length:
		s.Minute, s.Previous, s.Current = start, 0, 0
	case start > s.Minute:
		s.Minute, s.Previous, s.Current = start, s.Current, 0
	}
	return s
}

// rate returns the spend of the last minute.
func (s State) rate(at int64) float64 {
	weight := float64(max(at-s.Minute, 0)) / float64(time.Minute.Milliseconds())
	return s.Previous*(1-math.Min(weight, 1)) + s.Current
}

// correctBreaker adds a correction to the minute in which the estimate was taken. It
// does not open the breaker: the next request does.
func (s State) correctBreaker(delta float64, taken, at int64) State {
	s, at = s.advance(at)
	s = s.nextMinute(at)
	length := time.Minute.Milliseconds()
	switch taken - taken%length {
	case s.Minute:
		s.Current = max(s.Current+delta, 0)
	case s.Minute - length:
		s.Previous = max(s.Previous+delta, 0)
	}
	return s
}

// breakerTTL returns how long the spend or the open breaker can still matter.
func (s State) breakerTTL(b Breaker) time.Duration {
	switch {
	case s.Opened == 0:
		return 2 * time.Minute
	case b.Reset == 0:
		return maxTTL
	default:
		return milliseconds(s.Opened+b.Reset.Milliseconds()-s.At) + 2*time.Minute
	}
}
