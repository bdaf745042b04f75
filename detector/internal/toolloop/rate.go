package toolloop

import (
	"slices"
	"time"
)

const (
	// slowGap is the shortest time between two occurrences that are slow. An agent that waits
	// for something looks at it three times a minute or less.
	slowGap = 20 * time.Second
	// quickGap is the longest time between two occurrences that both count in full: as fast
	// as a model answers.
	quickGap = 2 * time.Second
	// whole is an occurrence that counts in full.
	whole = 1000
)

// haste returns the weight, in thousandths, of an occurrence that came a time after the one
// before: all of it up to quickGap, nothing from slowGap on, and linear in between. A gap of 0
// is unknown and has no weight.
func haste(gap time.Duration) uint32 {
	switch {
	case gap <= 0 || gap >= slowGap:
		return 0
	case gap <= quickGap:
		return whole
	}
	return uint32(whole * (slowGap - gap) / (slowGap - quickGap)) //nolint:gosec // less than whole
}

// rate is how fast occurrences follow each other. Times are in milliseconds of Unix time,
// 0 if they are not known.
type rate struct {
	first, last int64
	hasty       uint32 // the sum of haste
	soon        uint32 // occurrences that came soon after the one before
}

// occur adds an occurrence.
func (r *rate) occur(at int64) {
	r.hasty += haste(between(r.last, at))
	if soon(r.last, at) {
		r.soon++
	}
	if r.first == 0 {
		r.first = at
	}
	if at != 0 {
		r.last = at
	}
}

// takeBack removes the newest occurrence. The one before was at a time.
func (r *rate) takeBack(before int64) {
	if before == 0 || r.first == r.last {
		*r = rate{}
		return
	}
	r.hasty -= min(r.hasty, haste(between(before, r.last)))
	if soon(before, r.last) {
		r.soon -= min(r.soon, 1)
	}
	r.last = before
}

// quick returns the number of occurrences by their weight: at least 1.
func (r *rate) quick() int { return 1 + int(r.hasty)/whole }

// passed returns the time from the first to the last occurrence, as far as it is known.
func (r *rate) passed() time.Duration { return between(r.first, r.last) }

// slowFor returns the shortest time between two looks that wait for something. Half of slowGap
// is enough for looks that fail: a loop tries again at once.
func slowFor(failed bool) time.Duration {
	if failed {
		return slowGap / 2
	}
	return slowGap
}

// slow reports whether the occurrences of a streak of looks are known to have come slowly,
// on average.
func (e *streak) slow(failed bool) bool {
	return e.pure > 1 && e.rate.passed() >= time.Duration(e.pure-1)*slowFor(failed)
}

// between returns the time from one occurrence to the next. It is at least a millisecond
// if both are known, else 0.
func between(from, to int64) time.Duration {
	if from == 0 || to == 0 {
		return 0
	}
	return time.Duration(max(to-from, 1)) * time.Millisecond
}

// soon reports whether one time is known to be less than slowGap after another.
func soon(from, to int64) bool {
	gap := between(from, to)
	return gap > 0 && gap < slowGap
}

// due reports whether a slow poll that was made n times is worth a hint: at the threshold,
// and each time that n has doubled since.
func due(n, threshold int) bool {
	for threshold > 0 && threshold < n {
		threshold *= 2
	}
	return n == threshold
}

// gapBefore returns the time between a round and the one before. For slow looks at several
// things in turn with one tool, it returns the time since the last look at the same thing.
func gapBefore(rounds []round, i int) time.Duration {
	if i == 0 {
		return 0
	}
	gap := between(rounds[i-1].at, rounds[i].at)
	for j := i - 1; gap >= slowGap/2 && j >= 0 && rounds[j].sameTool(&rounds[i]); j-- {
		if equalRounds(rounds[j].calls, rounds[i].calls) {
			return between(rounds[j].at, rounds[i].at)
		}
	}
	return gap
}

// sameTool reports whether two rounds call one tool, and no other.
func (r round) sameTool(other *round) bool {
	tool := other.calls[0].tool
	return r.allOf(tool) && other.allOf(tool)
}

func (r round) allOf(tool uint32) bool {
	return !slices.ContainsFunc(r.calls, func(c pastCall) bool { return c.tool != tool })
}
