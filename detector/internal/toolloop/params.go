package toolloop

import (
	"cmp"
	"time"

	"github.com/unloop/unloop/schemas"
	"github.com/unloop/unloop/schemas/glob"
	"github.com/unloop/unloop/schemas/toolparams"
)

// Params are the thresholds and lists that a session is evaluated with. Start from
// [DefaultParams].
type Params toolparams.Params

// ToolRule are thresholds for the tools that a glob matches.
type ToolRule = toolparams.Rule

// DefaultParams are LibreFang's thresholds, without its circuit breaker (30 there),
// since honest coding agents make hundreds of calls.
func DefaultParams() Params {
	return Params{
		WarnThreshold: 3, BlockThreshold: 5, MaxWarnings: 3, PollMultiplier: 3, WorkMultiplier: 3, FailedWorkMultiplier: 2,
		Remember: 30, Idle: 30 * time.Minute, Backoff: []int{0, 5, 10, 30, 60},
		ErrorThreshold: 5, FailedRounds: 5, UnknownThreshold: 3, Escalate: 2, PollLimit: 6 * 3600,
		MaxPeriod: 8, Repeats: 3, NothingNew: 4, CycleEscalate: 2, EmptyThreshold: 6,
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
	warn, block, warnings int
	worked, workedFailed  int // with work in between, and when the call fails
}

func (p *Params) limits(tool string, poll bool) limits {
	l, multiplier := limits{warn: p.WarnThreshold, block: p.BlockThreshold, warnings: p.MaxWarnings}, p.PollMultiplier
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
		l.warn, l.block, l.warnings = l.warn*multiplier, l.block*multiplier, l.warnings*multiplier
	}
	l.worked, l.workedFailed = l.block*p.WorkMultiplier, l.warn*p.FailedWorkMultiplier
	return l
}

// overdue reports whether slow polls have brought the same for too long.
func (p *Params) overdue(passed time.Duration) bool {
	return p.PollLimit > 0 && passed >= time.Duration(p.PollLimit)*time.Second
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
