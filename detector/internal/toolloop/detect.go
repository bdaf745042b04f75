package toolloop

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/unloop/unloop/schemas/finding"
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
	if n := turn[len(turn)-1]; newest.closed && (n == 0 || !soon(s.items[n-1].at, newest.at)) {
		return nil // nobody knows whether the agent was woken
	}
	var out []Detection
	for i := range newest.calls {
		if c := &newest.calls[i]; !c.is(exempt) {
			out = s.detectCall(out, c, p, fresh)
		}
	}
	if p.FailedRounds > 0 && int(s.failed) >= p.FailedRounds {
		level := p.stands(s.failed, s.stalled, p.FailedRounds)
		out = append(out, Detection{Rule: finding.AllFailed, Level: level, Count: int(s.failed), Threshold: p.FailedRounds, mark: s.failed})
	}
	if f, found := s.cycle(turn, p); found {
		out = append(out, f)
	}
	if f, found := s.wideLoop(turn, p, fresh); found {
		out = append(out, f)
	}
	if f, found := s.nothingNew(turn, p); found && !slices.ContainsFunc(out, func(o Detection) bool { return o.Level >= min(f.Level, Block) }) {
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
	base := Detection{Tool: t.name, Poll: c.is(poll|waited) || c.is(look) && e.slow(c.is(failed)), call: c.key, answered: s.answers()}
	if base.Poll {
		base.Backoff = p.backoff(int(e.pure))
	}
	add := func(f Detection, rule string, level Level, count uint32, threshold int) {
		f.Rule, f.Level, f.Count, f.Threshold, f.mark = rule, level, int(count), threshold, count
		f.Calls = []CallRef{c.ref(t.name)}
		out = append(out, f)
	}
	found := len(out)
	e.detectRepeat(base, c, p, fresh, add)
	if n := s.similarFailures(c); len(out) == found && !base.Poll && int(n) >= p.WarnThreshold {
		similar := base
		similar.Similar = true
		add(similar, finding.Repeat, Warn, n, p.WarnThreshold)
	}
	e.detectOutcome(base, c, p, add)
	if c.times > 1 && int(c.times) >= p.WarnThreshold {
		add(base, finding.Parallel, Note, uint32(c.times), p.WarnThreshold)
	}
	if p.UnknownThreshold > 0 && c.is(notOffered) && int(t.unknown) >= p.UnknownThreshold {
		add(base, finding.NotOffered, p.stands(t.unknown, t.errors, p.UnknownThreshold), t.unknown, p.UnknownThreshold)
	}
	if n := p.EmptyThreshold; n > 0 && c.is(empty) && t.empties > 0 && int(t.empties)%n == 0 {
		add(base, finding.SameEmpty, Warn, t.empties, n)
	}
	if p.ErrorThreshold > 0 && c.is(failed) && int(t.errors) >= s.patience(t)*p.ErrorThreshold && len(t.args) > 1 {
		add(base, finding.SameError, p.stands(t.errors, t.stale, p.ErrorThreshold), t.errors, p.ErrorThreshold)
	}
	return out
}

// patience returns the factor for the threshold of a tool's errors. It is higher while each
// error is a new one and other calls succeed in between: that is how one fixes many places.
func (s *State) patience(t *tool) int {
	if t.stale == 0 && s.failed < t.errors {
		return 2
	}
	return 1
}

// stands returns the level of a finding about errors: a block if there are at least Escalate
// times the threshold, and at least the threshold of them told nothing new.
func (p *Params) stands(count, stale uint32, threshold int) Level {
	if p.Tool.Escalate > 0 && int(count) >= p.Tool.Escalate*threshold && int(stale) >= threshold {
		return Block
	}
	return Warn
}

// answers reports whether the agent answers a user every few rounds, such as a person who asks
// for the next track again and again.
func (s *State) answers() bool {
	const usual = 4 // rounds of a turn
	answers, rounds := 0, 0
	for i := range slices.Backward(s.items) {
		it := &s.items[i]
		if it.reset { // nothing before it counts
			break
		}
		if !it.human {
			rounds++
		} else if it.closed {
			answers++
		}
	}
	return answers > 0 && rounds <= usual*(answers+1)
}

type adder func(f Detection, rule string, level Level, count uint32, threshold int)

// detectRepeat compares the streak of a call with its thresholds. A fresh occurrence
// that is warned of uses up one of the call's warnings.
func (e *streak) detectRepeat(base Detection, c *pastCall, p *Params, fresh bool, add adder) {
	l := p.limits(base.Tool, c.is(poll|waited))
	if base.answered {
		l.warn, l.block, l.warnings = l.warn*turnMultiplier, l.block*turnMultiplier, l.warnings*turnMultiplier
	}
	pure, steady, worked := int(e.pure), int(e.steady), l.worked
	if c.is(failed) {
		worked = l.workedFailed
	}
	switch {
	case base.Poll:
		e.detectPoll(base, c, l, p, add)
	case c.is(soft) && pure >= l.warn:
		level := Warn
		if n := p.Tool.Escalate * l.warn; n > 0 && pure >= n && int(e.rate.soon) >= n-2 { // texts have rounds once one repeats itself
			level = Block
		}
		add(base, finding.Repeat, level, e.pure, l.warn)
	case pure >= l.block:
		add(base, finding.Repeat, Block, e.pure, l.block)
	case pure >= l.warn:
		if fresh {
			e.warned++
		}
		if int(e.warned) > l.warnings {
			add(base, finding.Repeat, Block, e.pure, l.warn+l.warnings)
		} else {
			add(base, finding.Repeat, Warn, e.pure, l.warn)
		}
	case c.is(once) && int(e.edits) >= l.warn:
		base.Once = true
		level := Warn
		if p.Tool.Escalate > 0 && int(e.edits) >= p.Tool.Escalate*l.warn && !c.is(soft) {
			level = Block
		}
		add(base, finding.Repeat, level, e.edits, l.warn)
	case steady >= worked && steady < worked+p.MaxWarnings && !c.silent():
		base.Worked = true
		add(base, finding.Repeat, Warn, e.steady, worked)
	}
}

// detectPoll compares the streak of a poll with its thresholds, by the polls that came
// quickly. Slow ones are warned of ever more rarely, and blocked after the policy's limit.
func (e *streak) detectPoll(base Detection, c *pastCall, l limits, p *Params, add adder) {
	base.Passed = e.rate.passed()
	switch quick, n := e.rate.quick(), int(e.pure); {
	case quick >= l.block:
		add(base, finding.Repeat, Block, uint32(quick), l.block) //nolint:gosec // a count
	case n >= l.warn && p.overdue(base.Passed):
		add(base, finding.Repeat, Block, e.pure, l.warn)
	case quick >= l.warn+l.warnings:
		add(base, finding.Repeat, Block, uint32(quick), l.warn+l.warnings) //nolint:gosec // a count
	case quick >= l.warn:
		add(base, finding.Repeat, Warn, uint32(quick), l.warn) //nolint:gosec // a count
	case due(n, l.warn) && !c.is(wait): // what it waits for is hinted
		base.Slow = true
		add(base, finding.Repeat, Warn, e.pure, l.warn)
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
		add(base, finding.Outcome, Block, e.done, p.OutcomeBlock)
	case p.OutcomeWarn > 0 && c.is(known) && int(e.done) >= p.OutcomeWarn:
		add(base, finding.Outcome, Warn, e.done, p.OutcomeWarn)
	}
}

// cycle looks for the shortest period with which the turn ends.
func (s *State) cycle(turn []int, p *Params) (Detection, bool) {
	if p.Repeats <= 0 {
		return Detection{}, false
	}
	rounds := s.counted(turn)
	for period := 2; period <= p.MaxPeriod && 2*period <= len(rounds); period++ {
		run := period
		for run < len(rounds) && equalRounds(rounds[len(rounds)-1-run].calls, rounds[len(rounds)-1-run+period].calls) {
			run++
		}
		if run < 2*period || uniform(rounds[len(rounds)-period:]) {
			continue
		}
		f := Detection{
			Rule: finding.Round, Level: Block, Count: run / period, Threshold: p.Repeats, Period: period, mark: s.round,
		}
		if period == 2 {
			f.Rule = finding.PingPong
		}
		last := rounds[len(rounds)-period:]
		if s.weighCycle(&f, rounds[len(rounds)-run:], p) {
			f.Tool, f.Calls = s.namesOf(last), s.refsOf(last)
			return f, true
		}
	}
	return Detection{}, false
}

// weighCycle compares the rounds of a cycle with the thresholds, and sets the level of its
// detection. Polls need a multiple of the repeats, and only quick ones count. Rounds
// that may be no actions are stopped later.
func (s *State) weighCycle(f *Detection, rounds []round, p *Params) bool {
	var r rate
	for i := range rounds {
		if i >= f.Period {
			r.hasty += haste(between(rounds[i-f.Period].at, rounds[i].at))
		}
		if i > 0 && soon(rounds[i-1].at, rounds[i].at) {
			r.soon++
		}
	}
	r.hasty /= uint32(f.Period) //nolint:gosec // a small number
	gap := between(rounds[0].at, rounds[len(rounds)-1].at) / time.Duration(len(rounds)-1)
	last := rounds[len(rounds)-f.Period:]
	if gap >= slowGap/2 && !slices.ContainsFunc(last, func(r round) bool { return !r.sameTool(&last[0]) }) {
		gap *= time.Duration(f.Period)
	}
	switch {
	case !slices.ContainsFunc(last, func(r round) bool { return !r.polls(gap) }):
		f.Poll, f.Passed, f.Threshold = true, between(rounds[0].at, rounds[len(rounds)-1].at), p.Repeats*p.PollMultiplier
		switch quick := r.quick(); {
		case quick >= f.Threshold || f.Count >= f.Threshold && p.overdue(f.Passed):
		case due(len(rounds), f.Threshold*f.Period):
			f.Level, f.Slow = Warn, true
		default:
			return false
		}
	case s.answers() && f.Count < turnMultiplier*p.Repeats:
		f.Level = Warn
	case slices.ContainsFunc(last, func(r round) bool { return r.any(soft) }):
		if n := p.Cycle.Escalate * p.Repeats; n == 0 || f.Count < n || int(r.soon) < (n-1)*f.Period-1 {
			f.Level = Warn
		}
	}
	return f.Count >= f.Threshold
}

// round is the calls of a round that are not exempt.
type round struct {
	calls []pastCall
	at    int64 // past.at
}

// all reports whether each call has one of the flags.
func (r round) all(f flags) bool {
	return !slices.ContainsFunc(r.calls, func(c pastCall) bool { return !c.is(f) })
}

// polls reports whether a round only polls, or looks at something so long after the round
// before that this is a poll.
func (r round) polls(gap time.Duration) bool {
	return r.all(poll|waited) || gap >= slowFor(r.all(failed)) && r.all(poll|waited|look)
}

// any reports whether a call has one of the flags.
func (r round) any(f flags) bool {
	return slices.ContainsFunc(r.calls, func(c pastCall) bool { return c.is(f) })
}

// counted returns the calls that are not exempt, of each round that has some.
func (s *State) counted(turn []int) []round {
	out := make([]round, 0, len(turn))
	for _, i := range turn {
		calls := s.items[i].calls
		for j := range calls {
			if calls[j].is(exempt) {
				calls = without(calls, exempt)
				break
			}
		}
		if len(calls) > 0 {
			out = append(out, round{calls, s.items[i].at})
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
func uniform(rounds []round) bool {
	for i := 1; i < len(rounds); i++ {
		if !equalRounds(rounds[0].calls, rounds[i].calls) {
			return false
		}
	}
	return true
}

// maxNamed bounds the tools and calls that the detection of a cycle names.
const maxNamed = 8

func (s *State) namesOf(rounds []round) string {
	var names []string
	for _, ref := range s.refsOf(rounds) {
		names = append(names, ref.Tool)
	}
	return strings.Join(names, ",")
}

func (s *State) refsOf(rounds []round) (refs []CallRef) {
	for _, r := range rounds {
		calls := r.calls
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
