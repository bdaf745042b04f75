package toolloop

import (
	"slices"
	"time"
)

// Cancel takes back the newest check of a call that has no result and is in no history: the
// call was not made.
func Cancel(s State, call Call, p Params, now time.Time) (State, Report) {
	s = s.awake(&p, now)
	key := call.Key.Key()
	for i, it := range slices.Backward(s.items) {
		if it.live && it.calls[0].key == key && !it.calls[0].is(known|answered) {
			s.uncount(i, &p)
			s.items = slices.Delete(s.items, i, i+1)
			return s, s.conclude(&p, false)
		}
	}
	return s, s.stands(&p)
}

// uncount takes back what count did for item i, a call without a result.
func (s *State) uncount(i int, p *Params) {
	it := &s.items[i]
	c := &it.calls[0]
	if c.is(exempt) {
		return
	}
	less := func(n *uint32) { *n -= min(*n, 1) }
	less(&s.total)
	if c.is(novel) {
		less(&s.unique)
	}
	e := s.streakOf(c.key)
	if e == nil || !slices.Contains(s.turn(), i) {
		return
	}
	if !c.is(soft) {
		less(&s.calls)
	}
	less(&s.wide)
	most := e.occurred == s.most && e.tool == s.mostTool
	less(&e.occurred)
	if most {
		s.findMost(e.occurred)
	}
	if e.occurred == 0 {
		s.streaks = slices.DeleteFunc(s.streaks, func(e streak) bool { return e.key == c.key })
		return
	}
	less(&e.pure)
	less(&e.count)
	less(&e.steady)
	less(&e.edits)
	// Each occurrence from the threshold on used up a warning.
	e.warned = min(e.warned, uint32(max(int(e.pure)-p.limits(s.toolName(c.tool), c.is(poll|waited)).warn+1, 0))) //nolint:gosec // a count
	if e.rate.last == it.at {
		e.rate.takeBack(s.before(i))
	}
}

// findMost finds the call that was made most often, after the one that was has only n
// occurrences left.
func (s *State) findMost(n uint32) {
	s.most = n
	for i := range s.streaks {
		if e := &s.streaks[i]; e.occurred > s.most {
			s.most, s.mostTool = e.occurred, e.tool
		}
	}
}

// before returns the time of the previous occurrence of the call of item i; 0 if unknown.
func (s *State) before(i int) int64 {
	for _, it := range slices.Backward(s.items[:i]) {
		if slices.ContainsFunc(it.calls, func(c pastCall) bool { return c.key == s.items[i].calls[0].key }) {
			return it.at
		}
	}
	return 0
}
