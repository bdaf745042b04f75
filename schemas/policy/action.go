package policy

import "slices"

// Action is the response to a finding.
type Action string

// The actions, in rising order of strength.
const (
	Allow    Action = "allow"
	Warn     Action = "warn"
	Hint     Action = "hint"
	Throttle Action = "throttle"
	Reject   Action = "reject"
	Break    Action = "break"
)

// strengths are the actions in rising order of strength.
var strengths = []Action{Allow, Warn, Hint, Throttle, Reject, Break}

// Strength orders actions: 0 for Allow and for unknown actions, 5 for Break.
func (a Action) Strength() int { return max(slices.Index(strengths, a), 0) }

// Step is one step of an escalation: Action applies from the At-th hit on.
type Step struct {
	At     int    `json:"at" check:"required,min=1,max=100000" doc:"Count from which the action applies."`
	Action Action `json:"action" check:"required,one=warn|hint|throttle|reject|break" doc:"Action."`
}

// ladder returns the configured escalation, or the single step if there is none.
func ladder(escalation []Step, single Step) []Step {
	if len(escalation) > 0 {
		return escalation
	}
	return []Step{single}
}
