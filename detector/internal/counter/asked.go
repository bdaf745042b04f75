package counter

import (
	"crypto/sha256"
	"encoding/hex"
	"slices"
)

// maxAsked bounds the requests that a record waits for after their decision was asked
// for: more than a client sends at once with the same content.
const maxAsked = 16

// markSize is the length of a request's mark in bytes. Sixteen random ids have different
// marks. A client that forges equal ones hides nothing, since each mark stands for a hit
// that was counted.
const markSize = 8

// mark returns the part of a request's id that a record keeps.
func mark(request string) string {
	sum := sha256.Sum256([]byte(request))
	return hex.EncodeToString(sum[:markSize])
}

// expect notes that the request of a check may still come.
func (s State) expect(h Hit) State {
	if !h.Asked || h.Request == "" || h.N > 1 {
		return s
	}
	kept := s.Asked[max(0, len(s.Asked)-maxAsked+1):]
	s.Asked = append(slices.Clone(kept), mark(h.Request)) // the old state keeps its own
	return s
}

// claim reports whether a request was counted when its decision was asked for, and
// removes its mark, so that a second request with the same id counts.
func (s State) claim(h Hit) (State, bool) {
	if len(s.Asked) == 0 || s.Count == 0 || h.Asked || h.Request == "" || h.N > 1 {
		return s, false
	}
	i := slices.Index(s.Asked, mark(h.Request))
	if i < 0 {
		return s, false
	}
	s.Asked = slices.Delete(slices.Clone(s.Asked), i, i+1)
	if len(s.Asked) == 0 {
		s.Asked = nil
	}
	return s, true
}
