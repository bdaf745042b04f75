package outcome

import (
	"fmt"
	"strings"

	"github.com/unloop/unloop/gateway/internal/evidence"
	"github.com/unloop/unloop/schemas/checkpb"
)

// Rules of findings, as detectors name them.
const (
	ruleTogether   = "sessions-together" // of the prompt detector, as the next one
	ruleRounds     = "identical-rounds"
	ruleRepeat     = "repeat" // of the tool detector, as the next seven
	ruleOutcome    = "outcome"
	ruleParallel   = "parallel"
	ruleBreaker    = "breaker"
	ruleSameError  = "same-error"
	ruleAllFailed  = "all-failed"
	ruleNotOffered = "not-offered"
	ruleSameEmpty  = "same-empty"
	rulePingPong   = "ping-pong" // of the cycle detector, as the last three
	ruleCycle      = "cycle"
	ruleWide       = "wide"
	ruleNothingNew = "nothing-new"
)

// maxTools bounds the names of tools in a message, in bytes. The code stands behind them
// and within the part of a text in which transcripts look for it.
const maxTools = 64

// inWords says what a detector found, how often and within which time.
func inWords(f *checkpb.Finding) string {
	n := f.GetHitCount()
	switch f.GetDetector() {
	case evidence.DetectorTool, evidence.DetectorCycle:
		return roundsInWords(f)
	case evidence.DetectorRequest:
		return fmt.Sprintf("the same request %d times within %d seconds", n, f.GetWindowSeconds())
	case evidence.DetectorSemantic:
		if n == 1 {
			return "a message that says again, in other words, what was said before"
		}
		return fmt.Sprintf("%d messages in a row that say again, in other words, what was said before", n)
	case evidence.DetectorUninspected:
		return fmt.Sprintf("%d request bodies that could not be read within %d seconds", n, f.GetWindowSeconds())
	case evidence.DetectorUsers:
		return fmt.Sprintf("%d changes of the same prompt's end user within %d seconds", n, f.GetWindowSeconds())
	}
	switch f.GetRule() {
	case ruleTogether:
		return fmt.Sprintf("the same prompt from this caller's sessions %d times within %d seconds", n, f.GetWindowSeconds())
	case ruleRounds:
		return fmt.Sprintf("%d identical rounds at the end of the conversation", n)
	}
	return fmt.Sprintf("the same prompt %d times within %d seconds", n, f.GetWindowSeconds())
}

// roundsInWords is inWords for findings in tool rounds.
func roundsInWords(f *checkpb.Finding) string {
	n, tools := f.GetHitCount(), toolsOf(f)
	switch f.GetRule() {
	case ruleOutcome:
		return fmt.Sprintf("the same result of the same tool call%s %d times", tools, n)
	case ruleParallel:
		return fmt.Sprintf("the same tool call%s %d times in one turn", tools, n)
	case ruleBreaker:
		if f.GetThreshold() > 0 && n > f.GetThreshold() {
			return fmt.Sprintf("%d tool calls since the last human message", n)
		}
		return "a session whose tool calls went round in circles"
	case ruleSameError:
		return fmt.Sprintf("the same error of a tool%s %d times", tools, n)
	case ruleAllFailed:
		return fmt.Sprintf("%d rounds of tool calls in a row that all failed", n)
	case ruleNotOffered:
		return fmt.Sprintf("%d calls of a tool that does not exist%s", n, tools)
	case ruleSameEmpty:
		return fmt.Sprintf("the same empty result of a tool%s in %d rounds", tools, n)
	case rulePingPong, ruleCycle:
		return fmt.Sprintf("the same cycle of tool calls%s %d times, with the same results", tools, n)
	case ruleWide:
		return fmt.Sprintf("the same few tool calls over and over in the last %d rounds", n)
	case ruleNothingNew:
		return fmt.Sprintf("%d rounds of tool calls in a row that brought nothing new", n)
	}
	return fmt.Sprintf("the same tool call%s with the same result %d times", tools, n)
}

// toolsOf returns the names of a finding's tools in brackets, behind a space; "" for none.
func toolsOf(f *checkpb.Finding) string {
	names := strings.ReplaceAll(f.GetTool(), ",", ", ")
	if len(names) > maxTools {
		names = strings.ToValidUTF8(names[:maxTools], "") + "…"
	}
	if names == "" {
		return ""
	}
	return " (" + names + ")"
}

// handle says how people look at the loop of a finding and let it through; "" where the
// loop has no id.
func handle(f *checkpb.Finding) string {
	if f.GetLoopId() == "" {
		return ""
	}
	look := " See `unloop loops show " + f.GetLoopId() + "`"
	if !f.GetAction().Stops() {
		return look + "."
	}
	return look + ", let through with `unloop loops release " + f.GetLoopId() + "`."
}
