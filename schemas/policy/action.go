package policy

// Action is what is done about a finding.
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

// Strength orders actions: 0 for Allow and for anything unknown, 5 for Break.
func (a Action) Strength() int {
	switch a {
	case Warn:
		return 1
	case Hint:
		return 2
	case Throttle:
		return 3
	case Reject:
		return 4
	case Break:
		return 5
	default:
		return 0
	}
}

// Step is one rung of an escalation: from the At-th hit on, Action applies.
type Step struct {
	At     int    `json:"at" check:"required,min=1,max=100000" doc:"From this count on."`
	Action Action `json:"action" check:"required,one=warn|hint|throttle|reject|break" doc:"What is done."`
}

// ladder is what a detector does at which count: the configured escalation,
// or a single step where there is none.
func ladder(escalation []Step, single Step) []Step {
	if len(escalation) > 0 {
		return escalation
	}
	return []Step{single}
}
