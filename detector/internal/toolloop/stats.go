package toolloop

// Stats is a summary of a session, for people and for the check API.
type Stats struct {
	Calls      int `json:"calls"`      // since the last human message
	Total      int `json:"total"`      // in all
	Unique     int `json:"unique"`     // distinct ones; a call made again after it was forgotten counts again
	Blocked    int `json:"blocked"`    // rounds that were blocked or broken off
	Remembered int `json:"remembered"` // rounds

	MostRepeated      string `json:"most_repeated,omitempty"`       // the tool of the call that was made most often
	MostRepeatedCount int    `json:"most_repeated_count,omitempty"` // and how often
	Broken            bool   `json:"broken,omitempty"`              // nothing passes until a human message or a release
}

// Stats returns the summary of s.
func (s *State) Stats() Stats {
	out := Stats{
		Calls: int(s.calls), Total: int(s.total), Unique: int(s.unique), Blocked: int(s.blocked), Broken: s.broken,
	}
	if s.most > 0 {
		out.MostRepeated, out.MostRepeatedCount = s.toolName(s.mostTool), int(s.most)
	}
	for i := range s.items {
		if !s.items[i].human {
			out.Remembered++
		}
	}
	return out
}
