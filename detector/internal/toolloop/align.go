package toolloop

import "slices"

// How a request's history is matched with what is remembered.
//
// Four ways are tried, the surest first:
//
//  1. By ids. Where every round of the history has an id of its own, the newest
//     round with a remembered id is the last known one.
//  2. By chain. Each remembered item, and the end of each of the newest histories,
//     is kept with a digest of all that came before it. An equal digest at some
//     position means that the client sent the same history up to there.
//  3. By overlap. Where the front was cut, the newest remembered items are at the history's front, after human messages that the client kept. The rest of a history may begin as an earlier one did, so this precedes a shorter chain.
//  4. By the newest remembered item alone, where the history was rewritten.
//
// What follows the match is new. The guarantees: whole histories, each sent any number of
// times, count every round once, whatever repeats in them. Histories cut at the front count
// every round once if they have distinct call ids, or as long as no request equals the one
// before it, item for item. Without ids, equal requests cannot be told from equal rounds: such
// a request counts as a new round only when it is not a retry, shows nothing but one call over
// and over, and the history is known to have been cut. In other doubtful cases a round counts
// too little rather than twice, except in a few histories that are cut, have no ids and repeat
// their rounds: there a request may be taken for an older one, and what follows it counts
// again.

// match is the known part of a history.
type match struct {
	known int // items of the history
	at    int // index of the remembered item that the last of them is, or -1
}

func (s *State) match(h *history, ev *Evidence) match {
	if m := s.byID(h); m.known > 0 {
		return m
	}
	m, newest := s.byChain(h)
	switch {
	case ev.Delta:
		return m
	case newest || m.known == len(h.items):
		if !ev.Retry && s.again(h, m, newest, ev.Own) {
			return match{known: m.known - 1, at: len(s.items) - 1}
		}
		return m
	}
	if over := s.byOverlap(h, ev.Own); over.known > 0 && over.known >= m.known {
		return over
	}
	return m
}

// byID finds the newest round of h with a remembered id. The match includes the human
// messages that follow it both in h and in the memory.
func (s *State) byID(h *history) match {
	n := len(h.items)
	if !h.distinctIDs(max(0, n-2*len(s.items)-2)) {
		return match{at: -1}
	}
	for i := n - 1; i >= 0; i-- {
		if h.ids[i] == 0 {
			continue
		}
		for j := len(s.items) - 1; j >= 0; j-- {
			if s.items[j].id != h.ids[i] || s.items[j].key != h.keys[i] || !s.sameBefore(h, i, j) {
				continue
			}
			j = s.sameID(h, i, j)
			for i+1 < n && j+1 < len(s.items) && s.items[j+1].human && s.items[j+1].key == h.keys[i+1] {
				i, j = i+1, j+1
			}
			return match{known: i + 1, at: j}
		}
	}
	return match{at: -1}
}

// sameID returns the index of the remembered item that is item i of h. j is the newest one with
// the item's id. Ids that stand for the words around a call may be equal, as in a run that is
// started again; then it is the one with the same items before it.
func (s *State) sameID(h *history, i, j int) int {
	for k := j; k >= 0; k-- {
		if s.items[k].id == h.ids[i] && s.items[k].chain == h.chains[i] {
			return k
		}
	}
	return j
}

// sameBefore reports whether item i of h and remembered item j have the same item before
// them, or none: an id that is used again later has another.
func (s *State) sameBefore(h *history, i, j int) bool {
	return i <= h.pinned || j == 0 || h.keys[i-1] == s.items[j-1].key
}

// distinctIDs reports whether all rounds from index from on have ids, no two the
// same. Some providers, and recordings, use an id twice.
func (h *history) distinctIDs(from int) bool {
	ids := make([]uint64, 0, len(h.ids)-from)
	for i := from; i < len(h.ids); i++ {
		if h.items[i].human() {
			continue
		}
		if h.ids[i] == 0 {
			return false
		}
		ids = append(ids, h.ids[i])
	}
	slices.Sort(ids)
	return len(slices.Compact(ids)) == len(ids)
}

// byChain looks for the longest beginning of h that was sent before. It reports
// whether that is all of the newest history.
func (s *State) byChain(h *history) (m match, newest bool) {
	for i, chain := range slices.Backward(h.chains) {
		newest = len(s.heads) > 0 && s.heads[len(s.heads)-1] == chain
		at := len(s.items) - 1
		for at >= 0 && s.items[at].chain != chain {
			at--
		}
		if at >= 0 || slices.Contains(s.heads, chain) {
			return match{known: i + 1, at: at}, newest
		}
	}
	return match{at: -1}, false
}

// again reports whether a history that was sent before, to its end, brings its
// last round again.
func (s *State) again(h *history, m match, newest, own bool) bool {
	last := len(h.items) - 1
	if m.known != last+1 || last < 0 || h.items[last].human() {
		return false
	}
	if own && m.at >= 0 && h.ids[last] != 0 && s.items[m.at].id != 0 && h.ids[last] != s.items[m.at].id {
		return true // another call of the same kind in the place of the old one
	}
	return newest && s.wasCut(h)
}

// wasCut reports whether h shows one call over and over, and the turn had other
// rounds before that it does not show.
func (s *State) wasCut(h *history) bool {
	key := h.keys[len(h.keys)-1]
	for i := range h.items {
		if !h.items[i].human() && h.keys[i] != key {
			return false
		}
	}
	return slices.ContainsFunc(s.turn(), func(i int) bool { return s.items[i].key != key })
}

// byOverlap looks for the newest remembered items in h. A client that cuts its history
// sends a run that reaches to the front of h or of the remembered items. Without such a
// run, the longest one is taken. In a session that does not name itself, rounds with
// different ids are those of different agents.
func (s *State) byOverlap(h *history, own bool) (m match) {
	m.at = -1
	mem := make([]int, 0, len(s.items))
	for i := range s.items {
		if !s.items[i].live {
			mem = append(mem, i)
		}
	}
	longest := 0
	for k := len(h.keys); k > h.pinned; k-- {
		run := 0
		for run < len(mem) && k-1-run >= 0 && s.items[mem[len(mem)-1-run]].isRound(h, k-1-run, own) {
			run++
		}
		if run == 0 {
			continue
		}
		whole := run == len(mem) || k-run <= h.pinned
		if whole || run > longest {
			longest, m = run, match{known: k, at: mem[len(mem)-1]}
		}
		if whole {
			break
		}
	}
	return m
}

// isRound reports whether a remembered item may be item i of h.
func (it *past) isRound(h *history, i int, own bool) bool {
	return it.key == h.keys[i] && (own || it.id == 0 || h.ids[i] == 0 || it.id == h.ids[i])
}
