package toolloop

import (
	"slices"

	"github.com/unloop/unloop/schemas/fingerprint"
)

// Some clients put all steps of a run into one message of the model: each request has a
// call more in it, and its result more behind it. That is a round for each step, and not
// one round of ever more parallel calls.

// ungrown returns the items of a history with each grown round split into its steps, as earlier
// requests have shown them; the calls that were added since are the newest step. Other rounds
// stay as they are: calls that come together are parallel.
func (s *State) ungrown(ev *Evidence, p *Params) []Item {
	parallel := func(it Item) bool { return !it.human() && len(it.Calls) > 1 }
	if ev.Delta || len(s.items) == 0 || !slices.ContainsFunc(ev.Items, parallel) {
		return ev.Items
	}
	last := len(ev.Items) - 1
	for ev.Items[last].human() {
		last--
	}
	out := make([]Item, 0, len(ev.Items)+1)
	chain := ev.Before
	for i := range ev.Items {
		steps := []Item{ev.Items[i]}
		if it := &ev.Items[i]; parallel(*it) && !s.remembers(it) {
			g := growth{s: s, items: ev.Items, at: i, newest: i == last, chain: chain.Key(), whole: ev.Before.IsZero(), full: s.rounds() >= p.HistorySize}
			steps = g.steps()
		}
		for k := range steps {
			chain = fingerprint.Chain(chain, steps[k].key())
		}
		out = append(out, steps...)
	}
	return out
}

// rounds returns the number of remembered rounds.
func (s *State) rounds() (n int) {
	for i := range s.items {
		if !s.items[i].human {
			n++
		}
	}
	return n
}

// remembers reports whether a round is remembered as it is.
func (s *State) remembers(it *Item) bool {
	key := it.key().Key()
	return slices.ContainsFunc(s.items, func(o past) bool { return !o.human && o.key == key && o.size() == len(it.Calls) })
}

// size returns the number of calls of a round.
func (it *past) size() (n int) {
	for i := range it.calls {
		n += int(it.calls[i].times)
	}
	return n
}

// growth is a round of a history that may have grown.
type growth struct {
	s      *State
	items  []Item // the history
	at     int    // the round's index
	newest bool   // no other round follows
	// chain is that of the items before the round, and whole says that none is left out.
	chain uint64
	whole bool
	// full says that older rounds may be forgotten.
	full bool
}

// steps returns the steps of the round, or the round itself if it did not grow. Only the
// newest round of a history may have calls that are not remembered.
func (g *growth) steps() []Item {
	it := g.items[g.at]
	for j, remembered := range slices.Backward(g.s.items) {
		if remembered.human {
			continue
		}
		for end := len(it.Calls); end > 0 && (g.newest || end == len(it.Calls)); end-- {
			ends := g.endingAt(j, end)
			if len(ends) == 0 {
				continue
			}
			steps, from := make([]Item, len(ends)), 0
			for i, end := range ends {
				steps[i].Calls, from = it.Calls[from:end:end], end
			}
			steps[len(steps)-1].Closed = it.Closed
			return steps
		}
		if g.newest {
			break
		}
	}
	return []Item{it}
}

// endingAt returns where the steps of the round end if its calls up to end are those of
// remembered rounds, the last of them at index j.
func (g *growth) endingAt(j, end int) (ends []int) {
	calls, first, last, sure := g.items[g.at].Calls, end, j, true
	for ; j >= 0 && first > 0 && !g.s.items[j].human; j-- {
		from := first - g.s.items[j].size()
		if from < 0 || from == first {
			return nil
		}
		same, byID := g.s.items[j].isStep(calls[from:first])
		if !same {
			return nil
		}
		ends, first, sure = append(ends, first), from, sure && byID
	}
	if first > 0 && j >= 0 || !g.follows(j, first, sure) || !sure && !g.precedes(last) {
		return nil
	}
	if first > 0 {
		ends = append(ends, first)
	}
	slices.Reverse(ends)
	if end < len(calls) {
		ends = append(ends, len(calls))
	}
	return ends
}

// follows reports whether the round may follow the remembered item j, with some calls before
// its first remembered step, whose own steps may be forgotten. Unless ids prove that these are
// the remembered steps, all items before them must be the same.
func (g *growth) follows(j, calls int, sure bool) bool {
	if j < 0 {
		return sure || g.full && g.newest || calls == 0 && g.at == 0 && g.whole
	}
	return g.s.items[j].chain == g.chain || sure && g.at > 0 && g.s.items[j].key == g.items[g.at-1].key().Key()
}

// precedes reports whether the remembered item after j, if there is one, is the item after the
// round.
func (g *growth) precedes(j int) bool {
	if j+1 == len(g.s.items) {
		return true
	}
	return g.at+1 < len(g.items) && g.s.items[j+1].key == g.items[g.at+1].key().Key()
}

// isStep reports whether a remembered round has these calls, and whether their ids prove it.
func (it *past) isStep(calls []Call) (same, byID bool) {
	if it.live || len(calls) == 1 && it.calls[0].key != calls[0].Key.Key() {
		return false, false
	}
	step := Item{Calls: calls}
	id := step.id()
	byID = id != 0 && it.id == id
	return step.key().Key() == it.key && (byID || it.id == 0 || id == 0), byID
}
