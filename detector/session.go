package detector

import "github.com/unloop/unloop/detector/internal/toolloop"

// SessionStats is a summary of an agent's stored tool calls.
type SessionStats = toolloop.Stats

// ReadSession returns the summary of the record of a session, see schemas.SessionKey. Only this
// module knows the encoding.
func ReadSession(stored []byte) (SessionStats, error) {
	var s toolloop.State
	if err := s.Parse(stored); err != nil {
		return SessionStats{}, err
	}
	return s.Stats(), nil
}
