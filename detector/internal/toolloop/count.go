package toolloop

import (
	"cmp"
	"math"
	"slices"

	"github.com/unloop/unloop/schemas/glob"
	"github.com/unloop/unloop/schemas/toolname"
)

// remembered returns item i of a history as it is remembered.
func (s *State) remembered(h *history, i int, p *Params) past {
	it := past{key: h.keys[i], chain: h.chains[i], id: h.ids[i], human: h.items[i].human()}
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
	set(c.Poll || glob.MatchAny(p.PollTools, c.Tool), poll)
	set(glob.MatchAny(p.ReadOnly, c.Tool) || toolname.IsThought(c.Tool), readOnly)
	set(p.exempts(c.Tool), exempt)
	set(c.NotOffered, notOffered)
	set(c.Soft, soft)
	if c.Ours {
		return out
	}
	out.loose = c.Loose.Key()
	if !c.Result.IsZero() && !p.IgnoreResults {
		out.flags |= known
		out.result = c.Result.Key()
		set(c.Empty, empty)
	}
	if c.Failed {
		out.flags |= failed
		out.class = c.Class.Key()
	}
	return out
}

// addHuman adds a human message that was not seen before at its place.
func (s *State) addHuman(it past, summary bool, p *Params) {
	unheard := s.hear(it.key)
	if it.reset = !summary && (unheard || s.stopped); it.reset {
		s.newTurn()
	}
	s.push(it, p.Remember)
}

// addRound adds a round that was not seen before. It reports whether the round counted:
// calls that were checked before do not count again.
func (s *State) addRound(it past, p *Params) bool {
	if s.claim(&it) || len(it.calls) == 0 {
		return false
	}
	s.count(it.calls)
	s.push(it, p.Remember)
	s.expire(p.Remember)
	return true
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

// count counts the calls of a new round.
func (s *State) count(calls []pastCall) {
	s.round++
	before, works := s.work, uint32(0)
	for i := range calls {
		c := &calls[i]
		if c.is(exempt) {
			continue
		}
		if !c.is(soft) {
			s.calls += uint32(c.times)
		}
		s.total += uint32(c.times)
		c.flags &^= novel
		e := s.streakOf(c.key)
		if e == nil {
			e = s.newStreak(c)
			c.flags |= novel
			s.unique++
		}
		changed := e.occur(c, before)
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
	s.countEmpty(calls)
	s.countFailure(calls)
}

// occur counts one occurrence of a call, and reports whether it brought another
// result than the one before. Before is State.work before its round.
func (e *streak) occur(c *pastCall, before uint32) (changed bool) {
	e.occurred++
	if e.known && c.is(known) && e.result != c.result {
		e.restart(c)
		return true
	}
	if e.work < before {
		e.pure, e.done, e.warned = 0, 0, 0
	}
	e.pure++
	e.count++
	if c.is(known) {
		e.known, e.result = true, c.result
		e.done++
	}
	return false
}

func (e *streak) restart(c *pastCall) {
	e.pure, e.count, e.done, e.warned, e.result = 1, 1, 1, 0, c.result
}

// works reports whether a call may have changed something outside, or shows that
// something has changed.
func (c *pastCall) works(changed bool) bool {
	return changed || c.is(novel) && c.is(known) && c.flags&(failed|poll|readOnly) == 0
}

// addResult adds the result of a remembered call that had none.
func (s *State) addResult(c, now *pastCall) {
	if c.is(known) || !now.is(known) {
		return
	}
	c.flags |= now.flags & (known | failed | empty)
	c.result, c.class, c.loose = now.result, now.class, now.loose
	e := s.streakOf(c.key)
	if e == nil {
		return
	}
	changed := e.known && e.result != c.result
	if changed {
		e.restart(c)
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
		t.class, t.errors, t.args = 0, 0, nil
	case t.errors == 0 || t.class != c.class:
		t.class, t.errors, t.args = c.class, 1, []uint64{c.key}
	default:
		t.errors++
		if len(t.args) < maxErrorArgs && !slices.Contains(t.args, c.key) {
			t.args = append(t.args, c.key)
		}
	}
}

// countFailure counts rounds in a row in which every call failed. Rounds without results
// are passed over.
func (s *State) countFailure(calls []pastCall) {
	failures, pending := 0, 0
	for i := range calls {
		switch c := &calls[i]; {
		case c.is(exempt):
		case c.is(failed):
			failures++
		case c.is(known):
			s.failed = 0
			return
		default:
			pending++
		}
	}
	if failures > 0 && pending == 0 {
		s.failed++
	}
}
