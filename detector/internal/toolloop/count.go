package toolloop

import (
	"cmp"
	"math"
	"slices"

	"github.com/unloop/unloop/schemas/glob"
	"github.com/unloop/unloop/schemas/toolname"
)

// remembered returns item i of a history in the form in which the state keeps it.
func (s *State) remembered(h *history, i int, p *Params) past {
	it := past{key: h.keys[i], chain: h.chains[i], id: h.ids[i], human: h.items[i].human()}
	if i >= h.newest {
		it.at = s.seen.UnixMilli()
	}
	if !it.human {
		it.calls = s.distinctCalls(h.items[i].Calls, p)
	}
	return it
}

// distinctCalls returns the distinct calls of a round, ordered by key.
func (s *State) distinctCalls(calls []Call, p *Params) []pastCall {
	out := make([]pastCall, 0, min(len(calls), maxParallel))
	for i := range calls {
		key := calls[i].Key.Key()
		if j := slices.IndexFunc(out, func(c pastCall) bool { return c.key == key }); j >= 0 {
			if out[j].times < math.MaxUint16 {
				out[j].times++
			}
		} else if len(out) < maxParallel {
			out = append(out, s.pastCall(&calls[i], p))
		}
	}
	slices.SortFunc(out, func(a, b pastCall) int { return cmp.Compare(a.key, b.key) })
	return out
}

func (s *State) pastCall(c *Call, p *Params) pastCall {
	out := pastCall{key: c.Key.Key(), tool: s.toolNamed(c.Tool).hash, times: 1}
	set := func(on bool, f flags) {
		if on {
			out.flags |= f
		}
	}
	set(c.Poll || c.Wait || glob.MatchAny(p.PollTools, c.Tool), poll)
	set(c.Wait, wait)
	set(c.Once, once)
	set(c.Look, look)
	set(glob.MatchAny(p.ReadOnly, c.Tool) || toolname.IsThought(c.Tool), readOnly)
	set(p.exempts(c.Tool), exempt)
	set(c.NotOffered, notOffered)
	set(c.Soft, soft)
	if c.Ours {
		return out
	}
	out.loose = c.Loose.Key()
	if !c.Result.IsZero() && p.ResultAware {
		out.flags |= known
		out.result = c.Result.Key()
		set(c.Empty, empty)
		set(c.Retold, retold)
	}
	if c.Failed {
		out.flags |= failed
		out.class = c.Class.Key()
		set(c.Plain, plain)
	}
	return out
}

// addHuman adds a human message that is new at this place. A new text begins a new turn. So
// does one that was sent before, if it follows a finished answer and did not come quickly: an
// agent that is woken repeats its work.
func (s *State) addHuman(it past, of *Item, p *Params) {
	unheard := s.hear(it.key)
	woken := of.Closed && !soon(s.asked, it.at)
	if it.reset = !of.Summary && (unheard || s.stopped || woken); it.reset {
		s.newTurn()
	}
	s.asked, it.closed = it.at, of.Closed
	s.push(it, p.HistorySize)
}

// addRound adds a new round. It reports whether the round counted: calls that were checked
// before do not count again. A round that is an answer with the message after it begins a new
// turn if it came slowly.
func (s *State) addRound(it past, of *Item, p *Params) bool {
	if s.claim(&it) || len(it.calls) == 0 {
		return false
	}
	if it.closed = of.Closed; it.closed && s.slow(&it) {
		it.reset = true
		s.newTurn()
	}
	s.count(&it)
	s.push(it, p.HistorySize)
	s.expire(p.HistorySize)
	return true
}

// slow reports whether an item is known to have come slowly after the newest one.
func (s *State) slow(it *past) bool {
	n := len(s.items)
	return n > 0 && between(s.items[n-1].at, it.at) >= slowGap
}

// claim removes from a round the calls that were checked before, and marks those as seen
// in a history. It reports whether none is left.
func (s *State) claim(it *past) bool {
	rest := it.calls[:0:0]
	for _, c := range it.calls {
		claimed := uint16(0)
		for i := range s.items {
			l := &s.items[i]
			if claimed < c.times && l.live && l.calls[0].key == c.key {
				l.live, l.chain, l.id = false, it.chain, it.id
				s.addResult(&l.calls[0], &c)
				claimed++
			}
		}
		if claimed == 0 {
			rest = append(rest, c)
		}
	}
	it.calls = rest
	return len(rest) == 0
}

// count counts the calls of a new round, which follows the remembered items.
func (s *State) count(it *past) {
	s.round++
	before, works, waiting := s.work, uint32(0), s.waiting()
	for i := range it.calls {
		c := &it.calls[i]
		if c.is(exempt) {
			continue
		}
		if !c.is(soft) {
			s.calls += uint32(c.times)
		}
		s.total += uint32(c.times)
		e := s.streakFor(c, waiting)
		changed := s.occur(e, c, before, it.at)
		e.round, e.work = s.round, before
		if c.works(changed) {
			works++
			e.work++ // a call is no work between itself and its next occurrence
		}
		if e.occurred > s.most {
			s.most, s.mostTool = e.occurred, e.tool
		}
		s.countTool(c)
	}
	s.work = before + works
	s.countEmpty(it.calls)
	if !s.triesAgain(it) {
		s.countFailure(it.calls)
	}
}

// triesAgain reports whether a round polls again for something, which is expected to fail until
// it exists.
func (s *State) triesAgain(it *past) bool {
	for i := range slices.Backward(s.items) {
		if before := &s.items[i]; !before.human {
			return !slices.ContainsFunc(it.calls, func(c pastCall) bool { return c.is(novel) }) && round{calls: it.calls}.polls(between(before.at, it.at))
		}
	}
	return false
}

// streakFor returns the streak of a call, and begins one for a new call. A call that is
// repeated after a wait is a poll.
func (s *State) streakFor(c *pastCall, waiting bool) *streak {
	c.flags &^= novel | waited
	e := s.streakOf(c.key)
	switch {
	case e == nil:
		c.flags |= novel
		s.unique++
		return s.newStreak(c)
	case waiting:
		c.flags |= waited
	}
	return e
}

// waiting reports whether the newest round does nothing but wait.
func (s *State) waiting() bool {
	for i := range slices.Backward(s.items) {
		it := &s.items[i]
		if !it.human {
			return round{calls: it.calls}.all(wait)
		}
		if it.reset {
			return false
		}
	}
	return false
}

// occur counts one occurrence of a call at a time, and reports whether it brought another
// result than the one before. Before is State.work before its round.
func (s *State) occur(e *streak, c *pastCall, before uint32, at int64) (changed bool) {
	if e.changes < s.changes && !c.is(failed) {
		e.steady = 0
	}
	e.steady++
	if changed = e.occur(c, before, at); changed {
		s.changes++
	}
	e.changes = s.changes
	return changed
}

func (e *streak) occur(c *pastCall, before uint32, at int64) (changed bool) {
	e.occurred++
	if e.work < before {
		e.edits = 0
	}
	e.edits++
	if e.known && c.is(known) && e.result != c.result {
		e.restart(c)
		e.rate.occur(at)
		return true
	}
	if e.work < before {
		e.pure, e.done, e.warned, e.rate = 0, 0, 0, rate{}
	}
	e.pure++
	e.count++
	e.rate.occur(at)
	if c.is(known) {
		e.known, e.result = true, c.result
		e.done++
	}
	return false
}

func (e *streak) restart(c *pastCall) {
	e.pure, e.count, e.steady, e.done, e.warned, e.rate, e.result = 1, 1, 1, 1, 0, rate{}, c.result
}

// works reports whether a call may have changed something, or shows that something has changed.
func (c *pastCall) works(changed bool) bool {
	return changed || c.is(novel) && c.is(known) && c.flags&(failed|poll|readOnly) == 0
}

// addResult adds the result of a remembered call that had none.
func (s *State) addResult(c, now *pastCall) {
	if c.is(known) || !now.is(known) {
		return
	}
	c.flags |= now.flags & (known | failed | empty | plain | retold | look)
	c.result, c.class, c.loose = now.result, now.class, now.loose
	e := s.streakOf(c.key)
	if e == nil {
		return
	}
	changed := e.known && e.result != c.result
	if changed {
		last := e.rate.last
		e.restart(c)
		e.rate.occur(last)
	} else {
		e.known, e.result = true, c.result
		e.done++
	}
	if c.works(changed) {
		s.work++
		e.work++
	}
	s.countError(c)
	s.countEmpty([]pastCall{*c})
	s.countFailure([]pastCall{*c})
}

// countTool counts a call for its tool.
func (s *State) countTool(c *pastCall) {
	t := s.toolOf(c.tool)
	if t == nil {
		return
	}
	t.round = s.round
	if c.is(notOffered) {
		t.unknown++
	} else {
		t.unknown = 0
	}
	if c.is(known) || c.is(failed) {
		s.countError(c)
	}
}

// countError counts failures of a tool with one error, until it succeeds.
func (s *State) countError(c *pastCall) {
	t := s.toolOf(c.tool)
	switch {
	case t == nil:
	case !c.is(failed):
		t.class, t.errors, t.stale, t.args, t.told = 0, 0, 0, nil, nil
	case t.errors == 0 || t.class != c.class:
		t.class, t.errors, t.stale, t.args, t.told, t.work = c.class, 1, 0, []uint64{c.key}, []uint64{c.result}, s.work
	default:
		t.errors++
		if slices.Contains(t.told, c.result) {
			t.stale++
		} else {
			if c.is(plain) && t.work == s.work {
				t.stale++
			}
			t.told = lastN(append(t.told, c.result), maxErrors)
		}
		t.work = s.work
		if len(t.args) < maxErrorArgs && !slices.Contains(t.args, c.key) {
			t.args = append(t.args, c.key)
		}
	}
}

// countFailure counts rounds in a row in which every call failed, and those of them whose
// errors had all been seen before. It skips rounds without results.
func (s *State) countFailure(calls []pastCall) {
	failures, pending, seen := 0, 0, 0
	for i := range calls {
		switch c := &calls[i]; {
		case c.is(exempt):
		case c.is(failed):
			failures++
			if slices.Contains(s.errors, c.failure()) {
				seen++
			}
		case c.is(known):
			s.failed, s.stalled, s.errors = 0, 0, nil
			return
		default:
			pending++
		}
	}
	if failures == 0 || pending > 0 {
		return
	}
	s.failed++
	if seen == failures {
		s.stalled++
	}
	for i := range calls {
		if c := &calls[i]; c.is(failed) && !slices.Contains(s.errors, c.failure()) {
			s.errors = lastN(append(s.errors, c.failure()), maxErrors)
		}
	}
}

// failure returns the key of a failed call's error.
func (c *pastCall) failure() uint64 {
	if c.is(plain) {
		return c.class
	}
	return c.result
}
