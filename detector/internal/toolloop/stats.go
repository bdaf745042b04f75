package toolloop

// Stats is a summary of a session, for people and for the check API.
type Stats struct {
	Calls      int // since the last human message
	Total      int // in all
	Unique     int // distinct ones; a call made again after it was forgotten counts again
	Blocked    int // rounds that were blocked or broken off
	Remembered int // rounds

	MostRepeated      string // the tool of the call that was made most often
	MostRepeatedCount int    // and how often
	Broken            bool   // nothing passes until a human message or a release
}

// Stats returns the summary of s.
func (s *State) Stats() Stats {
	out := Stats{
		Calls: int(s.calls), Total: int(s.total), Unique: int(s.unique), Blocked: int(s.blocked), Broken: s.broken,
		MostRepeated: s.toolName(s.mostTool), MostRepeatedCount: int(s.most),
	}
	for i := range s.items {
		if !s.items[i].human {
			out.Remembered++
		}
	}
	return out
}
