package toolloop

import (
	"cmp"
	"slices"
	"strings"

	"github.com/unloop/unloop/schemas/fingerprint"
)

// maxDetections bounds the detections of one round.
const maxDetections = 16

// detect evaluates the newest round of the turn. Fresh says that the request brought
// it.
func (s *State) detect(p *Params, fresh bool) []Detection {
	turn := s.turn()
	if len(turn) == 0 {
		return nil
	}
	newest := &s.items[turn[len(turn)-1]]
	var out []Detection
	for i := range newest.calls {
		if c := &newest.calls[i]; !c.is(exempt) {
			out = s.detectCall(out, c, p, fresh)
		}
	}
	if p.FailedRounds > 0 && int(s.failed) >= p.FailedRounds {
		out = append(out, Detection{Rule: AllFailed, Level: Warn, Count: int(s.failed), Threshold: p.FailedRounds, mark: s.failed})
	}
	if f, found := s.cycle(turn, p); found {
		out = append(out, f)
	}
	if f, found := s.wideLoop(turn, p, fresh); found {
		out = append(out, f)
	}
	if f, found := s.nothingNew(turn, p); found && !slices.ContainsFunc(out, func(o Detection) bool { return o.Level >= Warn }) {
		out = append(out, f)
	}
	slices.SortStableFunc(out, func(a, b Detection) int { return cmp.Compare(b.Level, a.Level) })
	return out[:min(len(out), maxDetections)]
}

func (s *State) detectCall(out []Detection, c *pastCall, p *Params, fresh bool) []Detection {
	e, t := s.streakOf(c.key), s.toolOf(c.tool)
	if e == nil || t == nil {
		return out
	}
	base := Detection{Tool: t.name, Poll: c.is(poll), call: c.key}
	if base.Poll {
		base.Backoff = p.backoff(int(e.pure))
	}
	add := func(f Detection, rule Rule, level Level, count uint32, threshold int) {
		f.Rule, f.Level, f.Count, f.Threshold, f.mark = rule, level, int(count), threshold, count
		f.Calls = []CallRef{c.ref(t.name)}
		out = append(out, f)
	}
	found := len(out)
	e.detectRepeat(base, c, p, fresh, add)
	if n := s.similarFailures(c); len(out) == found && int(n) >= p.WarnThreshold {
		similar := base
		similar.Similar = true
		add(similar, Repeat, Warn, n, p.WarnThreshold)
	}
	e.detectOutcome(base, c, p, add)
	if c.times > 1 && int(c.times) >= p.WarnThreshold {
		add(base, Parallel, Note, uint32(c.times), p.WarnThreshold)
	}
	if p.UnknownThreshold > 0 && c.is(notOffered) && int(t.unknown) >= p.UnknownThreshold {
		add(base, NotOffered, Warn, t.unknown, p.UnknownThreshold)
	}
	if n := p.EmptyThreshold; n > 0 && c.is(empty) && t.empties > 0 && int(t.empties)%n == 0 {
		add(base, SameEmpty, Warn, t.empties, n)
	}
	if p.ErrorThreshold > 0 && c.is(failed) && int(t.errors) >= p.ErrorThreshold && len(t.args) > 1 {
		add(base, SameError, Warn, t.errors, p.ErrorThreshold)
	}
	return out
}

type adder func(f Detection, rule Rule, level Level, count uint32, threshold int)

// detectRepeat compares the streak of a call with its thresholds. A fresh occurrence
// that is warned of uses up one of the call's warnings.
func (e *streak) detectRepeat(base Detection, c *pastCall, p *Params, fresh bool, add adder) {
	l := p.limits(base.Tool, base.Poll)
	pure, count, worked := int(e.pure), int(e.count), l.worked
	if c.is(failed) {
		worked = l.workedFailed
	}
	switch {
	case c.is(soft) && pure >= l.warn:
		add(base, Repeat, Warn, e.pure, l.warn)
	case pure >= l.block:
		add(base, Repeat, Block, e.pure, l.block)
	case pure >= l.warn:
		if fresh {
			e.warned++
		}
		if int(e.warned) > p.MaxWarnings {
			add(base, Repeat, Block, e.pure, l.warn+p.MaxWarnings)
		} else {
			add(base, Repeat, Warn, e.pure, l.warn)
		}
	case count >= worked && count < worked+p.MaxWarnings && !c.silent():
		base.Worked = true
		add(base, Repeat, Warn, e.count, worked)
	}
}

// silence is the result of a call without output.
var silence = fingerprint.EmptyResult().Key()

// silent reports whether a call succeeded without output, as a build after an edit
// does. A search that found nothing has an empty result, and is not silent.
func (c *pastCall) silent() bool {
	return c.is(known) && !c.is(failed|empty) && c.result == silence
}

// detectOutcome compares the number of equal results with the thresholds for results,
// which apply to the results before the call of this round.
func (e *streak) detectOutcome(base Detection, c *pastCall, p *Params, add adder) {
	before := int(e.done)
	if c.is(known) {
		before--
	}
	switch {
	case p.OutcomeBlock > 0 && before >= p.OutcomeBlock:
		add(base, Outcome, Block, e.done, p.OutcomeBlock)
	case p.OutcomeWarn > 0 && c.is(known) && int(e.done) >= p.OutcomeWarn:
		add(base, Outcome, Warn, e.done, p.OutcomeWarn)
	}
}

// cycle looks for the shortest period that the rounds of the turn end with.
func (s *State) cycle(turn []int, p *Params) (Detection, bool) {
	if p.Repeats <= 0 {
		return Detection{}, false
	}
	rounds := s.counted(turn)
	for period := 2; period <= p.MaxPeriod && 2*period <= len(rounds); period++ {
		run := period
		for run < len(rounds) && equalRounds(rounds[len(rounds)-1-run], rounds[len(rounds)-1-run+period]) {
			run++
		}
		if run < 2*period || uniform(rounds[len(rounds)-period:]) {
			continue
		}
		last := rounds[len(rounds)-period:]
		repeats := p.Repeats
		if allOf(last, poll) {
			repeats *= p.PollMultiplier
		}
		if run >= repeats*period {
			rule, level := Cycle, Block
			if period == 2 {
				rule = PingPong
			}
			if slices.ContainsFunc(last, func(round []pastCall) bool { return len(without(round, soft)) < len(round) }) {
				level = Warn
			}
			return Detection{
				Rule: rule, Level: level, Tool: s.namesOf(last), Calls: s.refsOf(last),
				Count: run / period, Threshold: repeats, Period: period, mark: s.round,
			}, true
		}
	}
	return Detection{}, false
}

// counted returns the calls that are not exempt, of each round that has some.
func (s *State) counted(turn []int) [][]pastCall {
	out := make([][]pastCall, 0, len(turn))
	for _, i := range turn {
		calls := s.items[i].calls
		for j := range calls {
			if calls[j].is(exempt) {
				calls = without(calls, exempt)
				break
			}
		}
		if len(calls) > 0 {
			out = append(out, calls)
		}
	}
	return out
}

func without(calls []pastCall, f flags) (out []pastCall) {
	for i := range calls {
		if !calls[i].is(f) {
			out = append(out, calls[i])
		}
	}
	return out
}

// equalRounds reports whether two rounds have the same calls with the same
// results, as far as these are known. Calls are ordered by key.
func equalRounds(a, b []pastCall) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if a[i].key != b[i].key || a[i].is(known) && b[i].is(known) && a[i].result != b[i].result {
			return false
		}
	}
	return true
}

// uniform reports whether all rounds are the same: that is a repeat, no cycle.
func uniform(rounds [][]pastCall) bool {
	for i := 1; i < len(rounds); i++ {
		if !equalRounds(rounds[0], rounds[i]) {
			return false
		}
	}
	return true
}

func allOf(rounds [][]pastCall, f flags) bool {
	for _, calls := range rounds {
		for i := range calls {
			if !calls[i].is(f) {
				return false
			}
		}
	}
	return true
}

// maxNamed bounds the tools and calls that the detection of a cycle names.
const maxNamed = 8

func (s *State) namesOf(rounds [][]pastCall) string {
	var names []string
	for _, ref := range s.refsOf(rounds) {
		names = append(names, ref.Tool)
	}
	return strings.Join(names, ",")
}

func (s *State) refsOf(rounds [][]pastCall) (refs []CallRef) {
	for _, calls := range rounds {
		for i := range calls[:min(len(calls), maxNamed-len(refs))] {
			refs = append(refs, calls[i].ref(s.toolName(calls[i].tool)))
		}
	}
	return refs
}

// ref names a call of the given tool.
func (c *pastCall) ref(tool string) CallRef {
	out := CallRef{Tool: tool, Key: c.key}
	if c.is(known) {
		out.Result = c.result
	}
	return out
}

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
	f := Detection{Rule: Wide, Level: Warn, Count: len(rounds), Threshold: p.WideRounds, mark: (s.wide + pace - 1) / pace}
	if int(f.mark) > p.MaxWarnings {
		f.Level, f.mark = Block, s.round
	}
	return f, true
}

func isWide(rounds [][]pastCall, p *Params) bool {
	if len(rounds) < p.WideRounds {
		return false
	}
	distinct := map[uint64]uint64{} // and their results, 0 while none is known
	counting, calls := 0, 0         // rounds with calls that are no polls
	for _, round := range rounds {
		others := 0
		for i := range round {
			c := &round[i]
			if c.is(poll) {
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
	return counting >= p.WideRounds && len(distinct)*100 < p.WideDistinct*calls
}
