package toolloop

import (
	"cmp"

	"github.com/unloop/unloop/schemas/finding"
)

// wideLoop looks for many rounds of few distinct calls that brought nothing new.
// It warns when the loop begins and at every third round that it goes on, and
// blocks when the warnings are used up. Polls are left to their own thresholds.
func (s *State) wideLoop(turn []int, p *Params, fresh bool) (Detection, bool) {
	if p.WideWindow <= 0 {
		return Detection{}, false
	}
	rounds := s.counted(turn)
	rounds = rounds[max(0, len(rounds)-p.WideWindow):]
	if !isWide(rounds, p) {
		s.wide = 0
		return Detection{}, false
	}
	if fresh {
		s.wide++
	}
	const pace = 3
	f := Detection{Rule: finding.Wide, Level: Warn, Count: len(rounds), Threshold: p.WideRounds, mark: (s.wide + pace - 1) / pace}
	if int(f.mark) > p.MaxWarnings {
		f.Level, f.mark = Block, s.round
	}
	return f, true
}

func isWide(rounds []round, p *Params) bool {
	if len(rounds) < p.WideRounds {
		return false
	}
	distinct := make(map[uint64]uint64, len(rounds)) // and their results, 0 while none is known
	counting, calls := 0, 0                          // rounds with calls that are not polls
	for k, r := range rounds {
		if k > 0 && r.polls(between(rounds[k-1].at, r.at)) {
			continue
		}
		others := 0
		for i := range r.calls {
			c := &r.calls[i]
			if c.is(poll | waited) {
				continue
			}
			others++
			before := distinct[c.key]
			if before != 0 && c.is(known) && c.result != before {
				return false
			}
			distinct[c.key] = cmp.Or(before, c.result)
		}
		if others > 0 {
			counting++
			calls += others
		}
	}
	return counting >= p.WideRounds && len(distinct)*100 < p.WideDistinctPercent*calls
}
