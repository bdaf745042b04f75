package counter

import "github.com/unloop/unloop/schemas/checkpb"

// follow records the length of a hit's history. A shorter history than before means that the
// agent has restarted; the hits of its earlier run must not stop it without a hint.
func (s State) follow(h Hit) State {
	if h.Messages > 0 && h.Messages < s.Messages {
		s.Before = s.Count
	}
	s.Messages = h.Messages
	return s
}

// action returns the action for a state: a hint instead of a stop if only hits from before a
// restart lead to it.
func (s State) action(p Params, blocked bool) checkpb.Action {
	a := p.action(s.Count, blocked)
	if a.Stops() && !blocked && s.Before > 0 && !p.action(s.Count-s.Before, false).Stops() {
		return checkpb.Action_ACTION_HINT
	}
	return a
}
