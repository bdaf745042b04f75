package toolloop

import (
	"fmt"
	"strings"
	"time"
)

// The detectors that rules belong to.
const (
	DetectorTool  = "tool"
	DetectorCycle = "cycle"
)

// Rule is the kind of a detection.
type Rule string

// The rules. All but the last four belong to the detector "tool".
const (
	Repeat     Rule = "repeat"      // the same call, with the same result
	Outcome    Rule = "outcome"     // the same result of a call, by the thresholds for results
	Parallel   Rule = "parallel"    // the same call several times in one round
	Breaker    Rule = "breaker"     // more calls than a policy allows
	SameError  Rule = "same-error"  // one error whatever the arguments
	AllFailed  Rule = "all-failed"  // rounds in a row that all failed
	NotOffered Rule = "not-offered" // a tool that does not exist
	SameEmpty  Rule = "same-empty"  // one empty result whatever the arguments
	PingPong   Rule = "ping-pong"   // two rounds by turns
	Cycle      Rule = "cycle"       // three rounds or more over and over
	Wide       Rule = "wide"        // many rounds, few distinct calls, nothing changed
	NothingNew Rule = "nothing-new" // rounds whose calls and results were all seen before
)

// Detector returns the detector that the rule belongs to.
func (r Rule) Detector() string {
	switch r {
	case PingPong, Cycle, Wide, NothingNew:
		return DetectorCycle
	}
	return DetectorTool
}

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
	Rule  Rule
	Level Level
	// Standing marks a detection that was reported before and to which the request adds
	// nothing: it still blocks, but needs no second hint.
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

	call uint64 // key of the call
	mark uint32 // rises when the detection gets worse
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

// Message returns one or two sentences about the detection for a model to act on. Done
// is the policy's action: Block if the call is refused, Break if everything is, anything
// else if it passes.
func (f *Detection) Message(done Level) string {
	name, advice := strings.TrimSpace("tool "+f.Tool), f.advice(done)
	switch f.Rule {
	case Outcome:
		return fmt.Sprintf("The %s has returned the identical result %d times. %s", name, f.Count, advice)
	case Parallel:
		return fmt.Sprintf("One turn calls the %s %d times with the same arguments. One call is enough.", name, f.Count)
	case Breaker:
		return f.stop()
	case SameError:
		return fmt.Sprintf("The %s has failed %d times with the same error, whatever its arguments were. %s", name, f.Count, advice)
	case AllFailed:
		return fmt.Sprintf("The last %d rounds of tool calls all failed. %s", f.Count, advice)
	case NotOffered:
		return fmt.Sprintf("The %s was called %d times but does not exist here. %s", name, f.Count, advice)
	case SameEmpty:
		return fmt.Sprintf("The %s has returned the same empty result in %d rounds, whatever its arguments were. %s", name, f.Count, advice)
	case NothingNew:
		return fmt.Sprintf("The last %d rounds brought nothing new: each call had been made before, with the same result. %s", f.Count, advice)
	case PingPong, Cycle:
		return fmt.Sprintf("The tool calls repeat a cycle of %d rounds (%s), %d times now%s, with the same results. %s", f.Period, strings.ReplaceAll(f.Tool, ",", ", "), f.Count, f.within(), advice)
	case Wide:
		return fmt.Sprintf("In the last %d rounds the same few tool calls came back again and again, and none brought anything new. %s", f.Count, advice)
	case Repeat:
		if f.Similar {
			return fmt.Sprintf("Nearly the same call of the %s has failed alike %d times. %s", name, f.Count, advice)
		}
	}
	return fmt.Sprintf("The %s was called %d times%s with the same arguments%s. %s", name, f.Count, f.within(), f.between(), advice)
}

const untilReleased = "Nothing goes on until a human sends a message or releases the loop."

func (f *Detection) stop() string {
	if f.Threshold == 0 || f.Count <= f.Threshold {
		return "This session was stopped because its tool calls went round in circles. " + untilReleased
	}
	return fmt.Sprintf("There were %d tool calls since the last human message; the limit is %d. %s", f.Count, f.Threshold, untilReleased)
}

func (f *Detection) between() string {
	if f.Once {
		return ", and takes effect each time"
	}
	if f.Worked {
		return " and gave the same result each time, whatever was done in between"
	}
	return " and gave nothing new"
}

// within returns the time that polls took, as far as it is worth saying.
func (f *Detection) within() string {
	switch minutes := int(f.Passed.Minutes()); {
	case minutes < 1:
		return ""
	case minutes == 1:
		return " within a minute"
	case minutes < 120:
		return fmt.Sprintf(" within %d minutes", minutes)
	default:
		return fmt.Sprintf(" within %d hours", minutes/60)
	}
}

func (f *Detection) advice(done Level) string {
	switch {
	case done == Break:
		return untilReleased
	case f.Rule == NotOffered:
		return "Use only the tools that are offered."
	case done == Block:
		return "This call is blocked: take a different approach, or say what stands in the way."
	case f.Poll && f.Backoff > 0:
		return fmt.Sprintf("Wait %d seconds before asking again, or go on with something else.", f.Backoff)
	case f.Rule == SameError || f.Rule == AllFailed || f.Similar:
		return "Find out what causes it before trying again."
	}
	return "Use what it already told you, or take a different approach."
}
