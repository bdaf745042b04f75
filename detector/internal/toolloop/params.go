package toolloop

import (
	"cmp"
	"time"

	"github.com/unloop/unloop/schemas"
	"github.com/unloop/unloop/schemas/glob"
)

// Params are the thresholds and lists that a session is evaluated with. Counts include
// the call or round that is evaluated. Start from [DefaultParams].
type Params struct {
	// A call that repeats itself is warned of from WarnThreshold occurrences on and
	// blocked from BlockThreshold on, and after MaxWarnings warnings of it.
	WarnThreshold, BlockThreshold, MaxWarnings int
	// PollMultiplier multiplies both thresholds for polls, and the repeats of a
	// cycle of polls.
	PollMultiplier int
	// WorkMultiplier multiplies BlockThreshold for occurrences of a call between which
	// other work was done, and FailedWorkMultiplier WarnThreshold where the call fails
	// each time. From there on they are warned of.
	WorkMultiplier, FailedWorkMultiplier int
	// CircuitBreaker breaks a session above so many calls since the last human
	// message; 0 for never.
	CircuitBreaker int
	// OutcomeWarn is the number of identical results from which on a call is
	// warned of, OutcomeBlock the one after which its next occurrence is blocked;
	// 0 for off.
	OutcomeWarn, OutcomeBlock int
	// Remember is how many rounds are remembered.
	Remember int
	// Idle is after how long without a request a session is forgotten.
	Idle time.Duration
	// IgnoreResults counts calls whatever their results are.
	IgnoreResults bool
	// Backoff are the pauses, in seconds, that are suggested after each poll in
	// turn; the last goes on.
	Backoff []int

	// Exempt, ReadOnly and PollTools are globs over tool names (* and ?): tools that
	// are never counted, that change nothing, and whose every call is a poll.
	Exempt, ReadOnly, PollTools []string
	// PerTool are thresholds by tool; the first that matches holds.
	PerTool []ToolRule

	// EmptyThreshold is the number of rounds in a row in which a tool brings the same
	// empty result, whatever its arguments, at which it is warned of, and again at
	// each multiple; 0 for off.
	EmptyThreshold int
	// NothingNew is the number of rounds in a row, all of whose calls and results
	// were seen since the last human message, from which on they are warned of; 0
	// for off. Polls count PollMultiplier times less.
	NothingNew int

	// ErrorThreshold is how often one error of a tool from differing arguments,
	// FailedRounds how many failed rounds in a row, and UnknownThreshold how many
	// calls of a tool that was not offered are warned of; 0 for off.
	ErrorThreshold, FailedRounds, UnknownThreshold int

	// A sequence of at most MaxPeriod rounds that comes Repeats times in a row is a
	// cycle; 0 Repeats for off.
	MaxPeriod, Repeats int
	// A wide loop is at least WideRounds of the last WideWindow rounds with fewer
	// than WideDistinct percent distinct calls, none of which brought another
	// result than before; 0 WideWindow for off.
	WideWindow, WideRounds, WideDistinct int
}

// ToolRule are thresholds for the tools that a glob matches; 0 keeps the value of
// Params.
type ToolRule struct {
	Match                                         string
	WarnThreshold, BlockThreshold, PollMultiplier int
}

// DefaultParams are LibreFang's thresholds, without its circuit breaker (30 there),
// since honest coding agents make hundreds of calls.
func DefaultParams() Params {
	return Params{
		WarnThreshold: 3, BlockThreshold: 5, MaxWarnings: 3, PollMultiplier: 3, WorkMultiplier: 3, FailedWorkMultiplier: 2,
		Remember: 30, Idle: 30 * time.Minute, Backoff: []int{0, 5, 10, 30, 60},
		ErrorThreshold: 5, FailedRounds: 5, UnknownThreshold: 3,
		MaxPeriod: 8, Repeats: 3, NothingNew: 4, EmptyThreshold: 6,
		WideWindow: 30, WideRounds: 24, WideDistinct: 40,
	}
}

// maxRemember bounds the state of a session, whatever the parameters say.
const maxRemember = 1000

// repaired returns p with values that make no sense replaced: a threshold of 0 becomes
// the default, and a warning threshold above the blocking one is swapped with it.
func (p Params) repaired() Params {
	d := DefaultParams()
	for _, f := range []struct {
		value  *int
		normal int
	}{
		{&p.WarnThreshold, d.WarnThreshold}, {&p.BlockThreshold, d.BlockThreshold}, {&p.MaxWarnings, d.MaxWarnings},
		{&p.PollMultiplier, d.PollMultiplier}, {&p.WorkMultiplier, d.WorkMultiplier}, {&p.FailedWorkMultiplier, d.FailedWorkMultiplier},
		{&p.Remember, d.Remember}, {&p.MaxPeriod, d.MaxPeriod},
	} {
		if *f.value <= 0 {
			*f.value = f.normal
		}
	}
	if p.Idle <= 0 {
		p.Idle = d.Idle
	}
	p.Remember = min(p.Remember, maxRemember)
	if p.WarnThreshold > p.BlockThreshold {
		p.WarnThreshold, p.BlockThreshold = p.BlockThreshold, p.WarnThreshold
	}
	return p
}

// limits are the thresholds for one call.
type limits struct {
	warn, block          int
	worked, workedFailed int // with work in between, and when the call fails
}

func (p *Params) limits(tool string, poll bool) limits {
	l, multiplier := limits{warn: p.WarnThreshold, block: p.BlockThreshold}, p.PollMultiplier
	for i := range p.PerTool {
		r := &p.PerTool[i]
		if !glob.Match(r.Match, tool) {
			continue
		}
		l.warn, l.block = cmp.Or(r.WarnThreshold, l.warn), cmp.Or(r.BlockThreshold, l.block)
		multiplier = cmp.Or(r.PollMultiplier, multiplier)
		break
	}
	l.warn = min(l.warn, l.block)
	if poll {
		l.warn, l.block = l.warn*multiplier, l.block*multiplier
	}
	l.worked, l.workedFailed = l.block*p.WorkMultiplier, l.warn*p.FailedWorkMultiplier
	return l
}

// backoff returns the pause in seconds that is suggested after the n-th poll of one
// call, n from 1.
func (p *Params) backoff(n int) int {
	if len(p.Backoff) == 0 || n < 1 {
		return 0
	}
	return p.Backoff[min(n, len(p.Backoff))-1]
}

// Expects reports whether a call is meant to be repeated: it polls, or its tool is
// exempt.
func (p *Params) Expects(tool string, poll bool) bool {
	return poll || p.exempts(tool) || glob.MatchAny(p.PollTools, tool)
}

// exempts reports whether a tool is never counted. A call of our own MCP tools is
// neither work nor a loop.
func (p *Params) exempts(tool string) bool {
	return schemas.IsMCPTool(tool) || glob.MatchAny(p.Exempt, tool)
}
