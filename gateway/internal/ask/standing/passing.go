package standing

import (
	"slices"
	"time"

	"github.com/unloop/unloop/schemas/checkpb"
)

// maxHitTimes bounds the hit times kept for a block.
const maxHitTimes = 64

// passing computes when a blocked request would pass if none were sent before. Hits on the
// block count, too, and delay it.
type passing struct {
	// first is the time that the detector named; zero for none.
	first time.Time
	last  time.Time
	// hits are the newest hit times of a sliding window, oldest first.
	hits []time.Time
	// missing is set if older hits were dropped.
	missing bool
}

func newPassing(f *checkpb.Finding, now time.Time) passing {
	p := passing{last: now}
	if f.GetRetryAfterMs() > 0 {
		p.first = now.Add(time.Duration(f.GetRetryAfterMs()) * time.Millisecond)
	}
	ages := f.GetHitAgesMs()
	for _, age := range ages[:min(len(ages), maxHitTimes)] {
		p.hits = append(p.hits, now.Add(-time.Duration(age)*time.Millisecond))
	}
	slices.Reverse(p.hits)
	p.missing = len(p.hits) >= maxHitTimes
	return p
}

func (p *passing) hit(now time.Time) {
	p.last = now
	p.hits = append(p.hits, now)
	if over := len(p.hits) - maxHitTimes; over > 0 {
		p.hits, p.missing = slices.Delete(p.hits, 0, over), true
	}
}

// after returns the milliseconds until the request passes; left is the time until its block
// ends. It returns 0 if the detector named no time.
func (p *passing) after(c *checkpb.Counter, steps []*checkpb.Step, now time.Time, left time.Duration) uint32 {
	if p.first.IsZero() {
		return 0
	}
	window := time.Duration(c.GetWindowSeconds()) * time.Second
	wait := left
	switch c.GetWindow() {
	case checkpb.Window_WINDOW_FIXED:
		wait = max(wait, p.first.Sub(now))
	case checkpb.Window_WINDOW_SLIDING:
		// Before the next request, the window may hold one hit fewer than the count that
		// stops.
		i := len(p.hits) - (stopsAt(steps) - 1)
		switch {
		case i >= 0 && i < len(p.hits):
			wait = max(wait, p.hits[i].Add(window).Sub(now))
		case p.missing: // not before that of the oldest known
			wait = max(wait, p.hits[0].Add(window).Sub(now))
		}
	default:
		wait = max(wait, p.last.Add(window).Sub(now))
	}
	return uint32(max(min(wait, longest(c)), time.Millisecond) / time.Millisecond)
}

// stopping reports whether any step stops a request.
func stopping(steps []*checkpb.Step) bool {
	return len(steps) == 0 || slices.ContainsFunc(steps, func(s *checkpb.Step) bool { return s.GetAction().Stops() })
}

// stopsAt returns the lowest count that stops a request.
func stopsAt(steps []*checkpb.Step) int {
	for _, s := range steps {
		if s.GetAction().Stops() {
			return int(s.GetAt())
		}
	}
	return 1
}
