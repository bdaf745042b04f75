package counter

import "github.com/unloop/unloop/schemas/checkpb"

// follow notes the length of a hit's history. A shorter one than before is that of a run
// that began again: what the one before did is no reason to stop it without a hint.
func (s State) follow(h Hit) State {
	if h.Messages > 0 && h.Messages < s.Messages {
		s.Before = s.Count
	}
	s.Messages = h.Messages
	return s
}

// action returns the action at a state. Hits from before the history began again bring a
// hint instead of a stop.
func (s State) action(p Params, blocked bool) checkpb.Action {
	a := p.action(s.Count, blocked)
	if a.Stops() && !blocked && s.Before > 0 && !p.action(s.Count-s.Before, false).Stops() {
		return checkpb.Action_ACTION_HINT
	}
	return a
}
