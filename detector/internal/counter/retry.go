package counter

import (
	"time"

	"github.com/unloop/unloop/schemas/checkpb"
)

// maxAges bounds the hit times in a verdict. A gateway that answers from a standing block
// computes the end of the block from them, with the hits since.
const maxAges = 64

// stops returns the lowest count that stops a request; 0 if none does.
func (p Params) stops() int {
	for _, step := range p.Steps {
		if step.Action.Stops() {
			return step.At
		}
	}
	return 0
}

// passes returns the time after which one more hit is not stopped.
func (s State) passes(p Params, at int64) time.Duration {
	until, stop := s.BlockedUntil, p.stops()
	switch length := p.Length.Milliseconds(); {
	case stop < 2 || s.Count+1 < stop: // nothing to wait for but the cooldown
	case p.Window == checkpb.Window_WINDOW_FIXED:
		until = max(until, s.First+length)
	case p.Window == checkpb.Window_WINDOW_SLIDING:
		if i := len(s.Hits) - (stop - 1); i >= 0 {
			until = max(until, s.Hits[i]+length)
		}
	default:
		until = max(until, s.Last+length)
	}
	return max(time.Duration(until-at)*time.Millisecond, 0)
}

// ages returns the ages of the hits that decide when the request passes.
func (s State) ages(p Params, at int64) []time.Duration {
	n := min(p.stops()-1, len(s.Hits), maxAges)
	if p.Window != checkpb.Window_WINDOW_SLIDING || n <= 0 {
		return nil
	}
	out := make([]time.Duration, n)
	for i := range out {
		out[i] = time.Duration(at-s.Hits[len(s.Hits)-1-i]) * time.Millisecond
	}
	return out
}
