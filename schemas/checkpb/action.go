package checkpb

import "slices"

// labels are the actions in the order of their numbers, as policies, events, headers and
// metrics name them.
var labels = []string{"allow", "warn", "hint", "throttle", "reject", "break"}

// Label returns the action as policies, events, headers and metrics name it; allow for an
// unknown one.
func (a Action) Label() string {
	if a < 0 || int(a) >= len(labels) {
		return labels[Action_ACTION_ALLOW]
	}
	return labels[a]
}

// ActionOf returns the action of a label; allow for any other text.
func ActionOf(label string) Action { return Action(max(slices.Index(labels, label), 0)) }

// Stops reports whether the action keeps a request from its upstream.
func (a Action) Stops() bool { return a >= Action_ACTION_REJECT }

// Label returns the answer as events and headers name it; empty for an error.
func (a Answer) Label() string {
	if a == Answer_ANSWER_SYNTHETIC {
		return "synthetic"
	}
	return ""
}
