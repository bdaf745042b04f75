package checkpb

// Label returns the action as policies, events, headers and metrics name it.
func (a Action) Label() string {
	switch a {
	case Action_ACTION_WARN:
		return "warn"
	case Action_ACTION_HINT:
		return "hint"
	case Action_ACTION_THROTTLE:
		return "throttle"
	case Action_ACTION_REJECT:
		return "reject"
	case Action_ACTION_BREAK:
		return "break"
	default:
		return "allow"
	}
}

// ActionOf returns the action of a label; allow for any other text.
func ActionOf(label string) Action {
	for a := range Action_name {
		if Action(a).Label() == label {
			return Action(a)
		}
	}
	return Action_ACTION_ALLOW
}

// Stops reports whether the action keeps a request from its upstream.
func (a Action) Stops() bool { return a >= Action_ACTION_REJECT }

// Label returns the answer as events and headers name it; empty for an error.
func (a Answer) Label() string {
	if a == Answer_ANSWER_SYNTHETIC {
		return "synthetic"
	}
	return ""
}
