package counter

import (
	"slices"

	"github.com/unloop/unloop/detector/internal/hitid"
)

// maxAsked bounds the checked requests that a record expects. A client sends fewer at once with
// the same content.
const maxAsked = 16

// expect records that the request of a check may follow.
func (s State) expect(h Hit) State {
	if !h.Asked || h.Request == "" || h.N > 1 {
		return s
	}
	kept := s.Asked[max(0, len(s.Asked)-maxAsked+1):]
	s.Asked = append(slices.Clone(kept), hitid.Mark(h.Request)) // the old state keeps its own
	return s
}

// claim reports whether a request was counted when its decision was asked for, and
// removes its mark, so that a second request with the same id counts.
func (s State) claim(h Hit) (State, bool) {
	if len(s.Asked) == 0 || s.Count == 0 || h.Asked || h.Request == "" || h.N > 1 {
		return s, false
	}
	i := slices.Index(s.Asked, hitid.Mark(h.Request))
	if i < 0 {
		return s, false
	}
	s.Asked = slices.Delete(slices.Clone(s.Asked), i, i+1)
	if len(s.Asked) == 0 {
		s.Asked = nil
	}
	return s, true
}
