package toolloop

import (
	"math/bits"
	"slices"

	"github.com/unloop/unloop/schemas/finding"
)

// pair is a call with its result.
type pair struct{ call, result uint64 }

// mark returns a short hash of the pair.
func (p pair) mark() uint32 {
	return uint32((p.call ^ bits.RotateLeft64(p.result, 29)) * 0x9e3779b97f4a7c15 >> 32) //nolint:gosec // the upper half
}

// seen holds the calls and results of a turn so far.
type seen struct {
	calls map[uint64]bool
	pairs map[pair]bool
	older []uint32 // State.older
}

// stale says how new a round is, compared with the rounds before it.
type stale uint8

const (
	news    stale = iota // a call or a result that was not seen before
	unclear              // only known calls, one without a result
	told                 // other calls, whose results tell only what others told
	alike                // only known calls with known results, or nearly so
	nothing              // only known calls with known results
)

// nothingNew counts the rounds at the end of the turn whose calls and results were all seen in
// it before. It blocks them once they reach Escalate times NothingNew, if at least NothingNew
// of them repeat each other or there are as many as are remembered: it is no loop to read again
// what a summary left out. Polls count for warnings alone, and only quick ones.
func (s *State) nothingNew(turn []int, p *Params) (Detection, bool) {
	if p.NothingNew <= 0 {
		return Detection{}, false
	}
	rounds := s.counted(turn)
	if n := len(rounds); n == 0 || slices.ContainsFunc(rounds[n-1].calls, func(c pastCall) bool { return s.isNews(rounds[:n-1], &c) }) {
		return Detection{}, false
	}
	before := seen{calls: map[uint64]bool{}, pairs: map[pair]bool{}, older: s.older}
	var run staleRun
	last := news
	for i, r := range rounds {
		last = before.take(r.calls)
		gap := gapBefore(rounds, i)
		quick := gap > 0 && gap < slowGap
		switch {
		case last == news:
			run = staleRun{}
		case last == told:
			run.told++
		case last >= alike && r.polls(gap):
			run.polls += count(quick && !r.any(waited)) // the wait before counts
		case last >= alike:
			run.take(r, last == nothing && (quick || !r.any(soft)))
		}
	}
	least := p.NothingNew
	if s.answers() {
		least *= turnMultiplier
	}
	if last < told || run.weight() < least && run.rounds+run.polls < least*p.PollMultiplier {
		return Detection{}, false
	}
	n := run.rounds + run.polls + run.told
	f := Detection{
		Rule: finding.NothingNew, Level: Warn, Tool: s.namesOf(rounds[len(rounds)-1:]), Count: n, Threshold: least,
		mark: uint32(n), //nolint:gosec // a number of remembered rounds
	}
	if p.Cycle.Escalate > 0 && run.sure >= p.Cycle.Escalate*least && (run.again >= least || run.sure >= p.HistorySize) {
		f.Level = Block
	}
	return f, true
}

// isNews reports whether a call is news after some rounds, as seen.look does, but is fast for
// the usual case: news.
func (s *State) isNews(rounds []round, c *pastCall) bool {
	answered := c.is(known | failed)
	if answered && (c.is(retold) || slices.Contains(s.older, pair{c.key, c.result}.mark())) {
		return false
	}
	own, like := pair{c.key, c.result}, c.likeness()
	for _, r := range rounds {
		for i := range r.calls {
			o := &r.calls[i]
			if !answered && o.key == c.key {
				return false
			}
			if !answered || !o.is(known|failed) {
				continue
			}
			if p, l := (pair{o.key, o.result}), o.likeness(); p == own || l == own || p == like || l == like {
				return false
			}
		}
	}
	return true
}

// staleRun counts rounds in a row that brought nothing new.
type staleRun struct {
	rounds, polls int
	told          int // rounds of other calls, whose results tell only what others told
	sure          int // of rounds, those that are exact, and are actions or came quickly
	again         int // of rounds, those that repeat an earlier one of them
	effects       []uint64
}

// weight returns the number of rounds that are not polls. Three looks at what is known are
// worth two repeats: one may look closer at a part.
func (s *staleRun) weight() int { return s.rounds + 2*s.told/3 }

// take adds a round that is not a poll.
func (s *staleRun) take(r round, sure bool) {
	s.rounds++
	s.sure += count(sure)
	known := true
	for i := range r.calls {
		key := r.calls[i].likeness()
		if effect := key.call ^ key.result; !slices.Contains(s.effects, effect) {
			s.effects, known = append(s.effects, effect), false
		}
	}
	s.again += count(known)
}

func count(yes bool) int {
	if yes {
		return 1
	}
	return 0
}

// take adds a round and returns how new it is.
func (b *seen) take(round []pastCall) stale {
	out := nothing
	for i := range round {
		out = min(out, b.look(&round[i]))
	}
	for i := range round {
		c := &round[i]
		b.calls[c.key] = true
		if c.is(known) || c.is(failed) {
			b.pairs[pair{c.key, c.result}] = true
			b.pairs[c.likeness()] = true
		}
	}
	return out
}

func (b *seen) look(c *pastCall) stale {
	switch {
	case !c.is(known) && !c.is(failed) && b.calls[c.key]:
		return unclear
	case !c.is(known) && !c.is(failed):
		return news
	case b.pairs[pair{c.key, c.result}], slices.Contains(b.older, pair{c.key, c.result}.mark()):
		return nothing
	case c.loose != 0 && b.pairs[c.likeness()]:
		return alike
	case c.is(retold):
		return told
	}
	return news
}

// likeness returns a key that is equal for calls that differ only in volatile values: of the
// call and its result or, for a failed call, its error.
func (c *pastCall) likeness() pair {
	switch {
	case c.loose == 0:
		return pair{c.key, c.result}
	case c.is(failed):
		return pair{^c.loose, c.class}
	}
	return pair{c.loose, c.result}
}

// similarFailures counts the rounds in a row, up to the newest, in which nearly the
// same call failed alike, with no other call between them that succeeded for the
// first time.
func (s *State) similarFailures(c *pastCall) (count uint32) {
	if c.loose == 0 || !c.is(failed) {
		return 0
	}
	turn := s.turn()
	for _, i := range slices.Backward(turn) {
		calls := s.items[i].calls
		if slices.ContainsFunc(calls, func(o pastCall) bool { return o.is(failed) && o.likeness() == c.likeness() }) {
			count++
		}
		if slices.ContainsFunc(calls, func(o pastCall) bool { return o.works(false) }) {
			break
		}
	}
	return count
}

// countEmpty counts rounds in which a tool brings the same empty result and
// nothing else.
func (s *State) countEmpty(calls []pastCall) {
	for i := range s.tools {
		t := &s.tools[i]
		same, other, result := false, false, uint64(0)
		for j := range calls {
			switch c := &calls[j]; {
			case c.tool != t.hash || !c.is(known) || c.is(poll|exempt|soft):
			case c.is(empty) && (!same || result == c.result):
				same, result = true, c.result
			default:
				other = true
			}
		}
		switch {
		case other:
			t.nothing, t.empties = 0, 0
		case same && t.nothing != result:
			t.nothing, t.empties = result, 1
		case same:
			t.empties++
		}
	}
}
