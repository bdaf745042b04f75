package outcome

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/unloop/unloop/gateway/internal/evidence"
	"github.com/unloop/unloop/schemas/checkpb"
)

// Rules of detectors that are more than words here.
const (
	ruleRounds   = "identical-rounds" // of the prompt detector
	ruleComplain = "complaints"
	ruleBreaker  = "breaker" // of the tool detector
)

// maxTools bounds the names of tools in a message, in bytes. The code stands behind them
// and within the part of a text in which transcripts look for it.
const maxTools = 64

// ruleWords say what findings of a rule are about, where that is not what their detector
// always finds: {n} is the count, {tools} the tools, and {seconds} the window.
var ruleWords = map[string]string{
	"sessions-together": "the same prompt from this caller's sessions {n} times within {seconds} seconds",
	ruleRounds:          "{n} identical rounds at the end of the conversation",
	ruleComplain:        "the same complaint about {n} answers in a row",
	"outcome":           "the same result of the same tool call{tools} {n} times",
	"parallel":          "the same tool call{tools} {n} times in one turn",
	ruleBreaker:         "a session whose tool calls went round in circles",
	"same-error":        "the same error of a tool{tools} {n} times",
	"all-failed":        "{n} rounds of tool calls in a row that all failed",
	"not-offered":       "{n} calls of a tool that does not exist{tools}",
	"same-empty":        "the same empty result of a tool{tools} in {n} rounds",
	"ping-pong":         "the same cycle of tool calls{tools} {n} times, with the same results",
	"cycle":             "the same cycle of tool calls{tools} {n} times, with the same results",
	"wide":              "the same few tool calls over and over in the last {n} rounds",
	"nothing-new":       "{n} rounds of tool calls in a row that brought nothing new",
}

// detectorWords are the same for detectors.
var detectorWords = map[string]string{
	evidence.DetectorPrompt:      "the same prompt {n} times within {seconds} seconds",
	evidence.DetectorTool:        "the same tool call{tools} with the same result {n} times",
	evidence.DetectorCycle:       "the same tool call{tools} with the same result {n} times",
	evidence.DetectorRequest:     "the same request {n} times within {seconds} seconds",
	evidence.DetectorSemantic:    "{n} messages in a row that say again, in other words, what was said before",
	evidence.DetectorUninspected: "{n} request bodies that could not be read within {seconds} seconds",
	evidence.DetectorUsers:       "{n} changes of the same prompt's end user within {seconds} seconds",
}

// inWords says what a detector found, how often and within which time.
func inWords(f *checkpb.Finding) string {
	n := f.GetHitCount()
	words := cmp.Or(ruleWords[f.GetRule()], detectorWords[f.GetDetector()], detectorWords[evidence.DetectorPrompt])
	switch {
	case f.GetRule() == ruleBreaker && f.GetThreshold() > 0 && n > f.GetThreshold():
		words = "{n} tool calls since the last human message"
	case f.GetDetector() == evidence.DetectorSemantic && n == 1:
		words = "a message that says again, in other words, what was said before"
	}
	return strings.NewReplacer("{n}", fmt.Sprint(n), "{tools}", toolsOf(f), "{seconds}", fmt.Sprint(f.GetWindowSeconds())).Replace(words)
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
