package toolloop

import (
	"time"

	"github.com/unloop/unloop/schemas/finding"
)

// Level is the severity of a detection, in rising order. A policy has an action for
// each: usually a report alone, a hint, a reject and a break.
type Level uint8

// The levels.
const (
	Allow Level = iota
	Note        // to be reported
	Warn        // the model should be told
	Block       // the request, or the call, should be refused
	Break       // so should all, until a human message, a release, or idleness
)

// Detection is a loop, or the beginning of one.
type Detection struct {
	Rule  string // of package finding
	Level Level
	// Standing marks a detection that was reported before and has not got worse: it still
	// blocks, but needs no second hint.
	Standing bool
	// Tool is the tool's name; for cycles, the names of all in their order, with
	// commas.
	Tool string
	// Count is the number of occurrences, repeats, calls or rounds, with this one;
	// Threshold is the number from which on this level holds.
	Count, Threshold int
	Period           int  // rounds of one repeat, for cycles
	Poll             bool // the call is a poll
	Worked           bool // other work was done between the occurrences
	Once             bool // the call is an edit or the like, whatever it brings
	Slow             bool // a poll with too few quick occurrences
	Similar          bool // the calls are nearly, but not quite, the same
	Backoff          int  // seconds to wait before the next poll, as far as it is one
	// Passed is the time from the first to the newest occurrence of a poll; 0 if it is
	// not known.
	Passed time.Duration

	// Calls are the calls of the loop in their order, at most maxNamed: those of one
	// period of a cycle, or the one call that is repeated. A detection that was stored
	// has none.
	Calls []CallRef

	call     uint64 // key of the call
	answered bool   // State.answers
	mark     uint32 // rises when the detection gets worse
}

// CallRef names a call by its tool and the keys of the call and its result. Result is 0
// if it is not known.
type CallRef struct {
	Tool        string
	Key, Result uint64
}

// same reports whether f and g are the same detection, and f is no worse.
func (f *Detection) same(g *Detection) bool {
	return f.Rule == g.Rule && f.call == g.call && f.mark == g.mark && f.Level <= g.Level
}

// Facts returns the facts for describing the detection. The caller adds the action.
func (f *Detection) Facts() finding.Facts {
	facts := finding.Facts{
		Detector: finding.DetectorOf(f.Rule), Rule: f.Rule, Tool: f.Tool, Count: f.Count, Threshold: f.Threshold, Period: f.Period,
		Passed: f.Passed, Worked: f.Worked, Once: f.Once, Similar: f.Rule == finding.Repeat && f.Similar,
	}
	if f.Poll {
		facts.Backoff = f.Backoff
	}
	return facts
}
