package toolloop

import (
	"cmp"
	"time"

	"github.com/unloop/unloop/schemas"
	"github.com/unloop/unloop/schemas/glob"
	"github.com/unloop/unloop/schemas/policy"
)

// Params are what a session is evaluated with: the tool and the cycle detector of a
// policy, whose values are valid. Neither may be nil.
type Params struct {
	*policy.Tool
	*policy.Cycle
}

// DefaultParams returns the defaults of both detectors.
func DefaultParams() Params { return Params{policy.DefaultTool(), policy.DefaultCycle()} }

// Idle is the time without a request after which a session is forgotten.
func (p *Params) Idle() time.Duration { return time.Duration(p.TTLSeconds) * time.Second }

// Repeats of a call with other work in between bring a warning at workMultiplier times the
// threshold of a block or, if the call fails each time, at failedWorkMultiplier times that of a
// warning.
const (
	workMultiplier       = 3
	failedWorkMultiplier = 2
	// turnMultiplier is for calls that people ask for one after the other.
	turnMultiplier = 2
)

// maxRemember is the most rounds that a policy can have remembered.
const maxRemember = 1000

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
	l.worked, l.workedFailed = l.block*workMultiplier, l.warn*failedWorkMultiplier
	return l
}

// overdue reports whether slow polls have brought the same for too long.
func (p *Params) overdue(passed time.Duration) bool {
	return p.PollLimitHours > 0 && passed >= time.Duration(p.PollLimitHours)*time.Hour
}

// backoff returns the pause in seconds that is suggested after the n-th poll of one
// call, n from 1.
func (p *Params) backoff(n int) int {
	if len(p.PollBackoff) == 0 || n < 1 {
		return 0
	}
	return p.PollBackoff[min(n, len(p.PollBackoff))-1]
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
