package toolloop

import (
	"slices"
	"time"

	"github.com/unloop/unloop/schemas/finding"
	"github.com/unloop/unloop/schemas/fingerprint"
)

// Report is the result of a request, a check or a reported result.
type Report struct {
	// Detections are those of the newest round, and those that stand from before.
	Detections []Detection
	// Calls are the counts of the newest round's calls.
	Calls []Count
}

// Count is how often a call was repeated.
type Count struct {
	Streak    int // occurrences with the same result, without other work in between
	Total     int // occurrences with the same result
	Warn      int // the thresholds that hold for the call
	Block     int
	Poll      bool
	BackoffIn int // seconds to wait before the next occurrence, for polls
}

// Level returns the highest level of the detections.
func (r *Report) Level() Level {
	level := Allow
	for i := range r.Detections {
		level = max(level, r.Detections[i].Level)
	}
	return level
}

// Step adds the history of a request to the state.
func Step(s State, ev Evidence, p Params, now time.Time) (State, Report) {
	s = s.awake(&p, now)
	ev.Items = s.ungrown(&ev, &p)
	h := newHistory(&ev)
	m := s.match(h, &ev)
	switch {
	case ev.Own || ev.Delta || len(h.items) == 0:
	case s.compacted(h, m):
		m = s.compact(h, m)
	default:
		m = s.follow(m, &p)
	}
	s.addResults(h, m, &p)
	fresh := false
	for i := m.known; i < len(h.items); i++ {
		it := s.remembered(h, i, &p)
		if !it.human {
			fresh = s.addRound(it, &h.items[i], &p) || fresh
			continue
		}
		s.addHuman(it, &h.items[i], &p)
		fresh = fresh && !s.items[len(s.items)-1].reset
	}
	s.end(h, &ev)
	if !fresh && !s.shows(h) {
		return s, s.report(&p, false)
	}
	return s, s.conclude(&p, fresh)
}

// Check adds a call that is about to be made, outside of any history. Every check is an
// occurrence, also of a call that is refused.
func Check(s State, call Call, p Params, now time.Time) (State, Report) {
	s = s.awake(&p, now)
	call.Result, call.Failed = fingerprint.Digest{}, false
	s.addLive(&call, &p)
	return s, s.conclude(&p, true)
}

// Result adds the result of a call, whether or not the call was checked before. A call
// that we refused has no result.
func Result(s State, call Call, p Params, now time.Time) (State, Report) {
	s = s.awake(&p, now)
	if call.Ours {
		return s, s.stands(&p)
	}
	calls := s.distinctCalls([]Call{call}, &p)
	for i := range s.items {
		if l := &s.items[i]; l.live && l.calls[0].key == calls[0].key && !l.calls[0].is(known|answered) {
			l.calls[0].flags |= answered
			s.addResult(&l.calls[0], &calls[0])
			return s, s.conclude(&p, false)
		}
	}
	s.addLive(&call, &p)
	return s, s.conclude(&p, true)
}

// Explain reports what is known, and adds nothing.
func Explain(s State, p Params, now time.Time) Report {
	s = s.awake(&p, now)
	return s.stands(&p)
}

// Release ends all blocks and counts of a session, as a human message does.
func Release(s State) State {
	s = s.clone()
	s.newTurn()
	if n := len(s.items); n > 0 {
		s.items[n-1].released = true
	}
	return s
}

// Stop records that a request was refused. The next human message then begins a new turn even
// if it was sent before. With forever set, everything is refused until then.
func Stop(s State, forever bool) State {
	s = s.clone()
	s.stopped = true
	s.broken = s.broken || forever
	return s
}

// awake returns a copy of s to be changed; an empty state if the session was idle for too long.
func (s State) awake(p *Params, now time.Time) State {
	now = time.UnixMilli(now.UnixMilli()).UTC() // as it is stored
	if s.seen.IsZero() || now.Sub(s.seen) >= p.Idle() {
		return State{seen: now}
	}
	s = s.clone()
	if now.After(s.seen) {
		s.seen = now
	}
	return s
}

// follow adapts the state of a derived session to a history. A history that does not continue
// the remembered one begins a new state. One that branched off removes the items after the
// branch.
func (s *State) follow(m match, p *Params) match {
	switch {
	case m.known == 0:
		*s = State{seen: s.seen, doubt: doubtful(s.items)}
		return match{at: -1}
	case m.at >= 0 && m.at < len(s.items)-1:
		s.rewind(m.at, p)
		s.doubt = doubtful(s.items)
	case s.doubt > 0:
		s.doubt--
	}
	m.at = len(s.items) - 1
	return m
}

// compacted reports whether a history continues the remembered one with a summary of it. It
// returns false in doubt whether both are of one agent: agents that began with the same
// messages share a derived session. The summary may be equal to the one before.
func (s *State) compacted(h *history, m match) bool {
	if s.doubt > 0 || len(s.items) == 0 || m.at == len(s.items)-1 {
		return false
	}
	summary := func(it Item) bool { return it.Summary }
	return slices.ContainsFunc(h.items[m.known:], summary) || m.known == len(h.items) && summary(h.items[m.known-1])
}

// compact treats the summary in a history as new. No later history shows the items
// before it.
func (s *State) compact(h *history, m match) match {
	for i := range s.items {
		s.items[i].chain = 0
	}
	return match{known: min(m.known, len(h.items)-1), at: -1}
}

// doubtful returns the doubt after histories diverged.
func doubtful(items []past) uint8 {
	if len(items) == 0 {
		return 0
	}
	return 2
}

// rewind makes s forget the items after index at, by counting those up to it again.
func (s *State) rewind(at int, p *Params) {
	old := *s
	*s = State{
		seen: old.seen, heads: old.heads, heard: old.heard, tools: old.tools,
		total: old.total, unique: old.unique, blocked: old.blocked, most: old.most, mostTool: old.mostTool,
	}
	s.newTurn()
	s.older = old.older
	for _, it := range old.items[:at+1] {
		if it.reset {
			s.newTurn()
		}
		if !it.human {
			s.count(&it)
		}
		if it.released {
			s.newTurn()
		}
		s.push(it, p.HistorySize)
	}
	s.total, s.unique = old.total, old.unique
	s.expire(p.HistorySize)
}

// addResults adds results that are new in the history to remembered rounds.
func (s *State) addResults(h *history, m match, p *Params) {
	for i, j := m.known-1, m.at; i >= 0 && j >= 0 && h.keys[i] == s.items[j].key; i, j = i-1, j-1 {
		pending := slices.ContainsFunc(s.items[j].calls, func(c pastCall) bool { return !c.is(known) })
		if !pending || h.items[i].human() {
			continue
		}
		for _, now := range s.distinctCalls(h.items[i].Calls, p) {
			for k := range s.items[j].calls {
				if c := &s.items[j].calls[k]; c.key == now.key {
					s.addResult(c, &now)
				}
			}
		}
	}
}

// end remembers where the history ended.
func (s *State) end(h *history, ev *Evidence) {
	if len(h.chains) == 0 {
		return
	}
	head := h.chains[len(h.chains)-1]
	if !ev.Own {
		s.heads = s.heads[:0]
	}
	s.heads = slices.DeleteFunc(s.heads, func(c uint64) bool { return c == head })
	s.heads = lastN(append(s.heads, head), maxHeads)
}

// shows reports whether the last round of h is the newest remembered one.
func (s *State) shows(h *history) bool {
	turn := s.turn()
	for i := len(h.items) - 1; i >= 0 && len(turn) > 0; i-- {
		if !h.items[i].human() {
			return h.keys[i] == s.items[turn[len(turn)-1]].key
		}
	}
	return false
}

// addLive adds a call that no history has shown yet.
func (s *State) addLive(call *Call, p *Params) {
	it := past{key: fingerprint.RoundKey([]fingerprint.Digest{call.Key}).Key(), live: true, at: s.seen.UnixMilli(), calls: s.distinctCalls([]Call{*call}, p)}
	s.count(&it)
	s.push(it, p.HistorySize)
	s.expire(p.HistorySize)
}

// conclude evaluates the newest round and remembers the detections.
func (s *State) conclude(p *Params, fresh bool) Report {
	if p.GlobalCircuitBreaker > 0 && int(s.calls) > p.GlobalCircuitBreaker {
		s.broken = true
	}
	found := s.detect(p, fresh)
	for i := range found {
		found[i].Standing = slices.ContainsFunc(s.standing, func(f Detection) bool { return found[i].same(&f) })
	}
	s.standing = found
	r := s.report(p, true)
	if fresh && s.broken {
		r.Detections[len(r.Detections)-1].Standing = false
	}
	if s.stopped = r.Level() >= Block; s.stopped && fresh {
		s.blocked++
	}
	return r
}

// stands returns the detections of earlier requests.
func (s *State) stands(p *Params) Report {
	r := s.report(p, true)
	for i := range r.Detections {
		r.Detections[i].Standing = true
	}
	return r
}

// report returns a break that is in force and, if the newest round was evaluated, its
// detections and counts.
func (s *State) report(p *Params, evaluated bool) (r Report) {
	if evaluated {
		r.Detections = slices.Clone(s.standing)
		r.Calls = s.counts(p)
	}
	if s.broken {
		r.Detections = append(r.Detections, Detection{
			Rule: finding.Breaker, Level: Break, Standing: true, Count: int(s.calls), Threshold: p.GlobalCircuitBreaker,
		})
	}
	return r
}

// counts returns the counts of the newest round's calls.
func (s *State) counts(p *Params) (out []Count) {
	turn := s.turn()
	if len(turn) == 0 {
		return nil
	}
	for _, c := range s.items[turn[len(turn)-1]].calls {
		e := s.streakOf(c.key)
		if e == nil {
			continue
		}
		l := p.limits(s.toolName(c.tool), c.is(poll))
		n := Count{Streak: int(e.pure), Total: int(e.count), Warn: l.warn, Block: l.block, Poll: c.is(poll)}
		if n.Poll {
			n.BackoffIn = p.backoff(n.Streak)
		}
		out = append(out, n)
	}
	return out
}
