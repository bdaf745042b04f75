package outcome

import (
	"strings"
	"testing"

	"github.com/unloop/unloop/gateway/internal/evidence"
	"github.com/unloop/unloop/gateway/internal/provider/transcript/rounds"
	"github.com/unloop/unloop/schemas/checkpb"
)

func TestMessagesSayWhatWasFoundInWords(t *testing.T) {
	t.Parallel()
	const tool, cycle, prompt = evidence.DetectorTool, evidence.DetectorCycle, evidence.DetectorPrompt
	for _, c := range []struct {
		detector, rule, tool string
		count, threshold     uint32
		want                 string
	}{
		{evidence.DetectorRequest, "", "", 4, 4, "the same request 4 times within 60 seconds"},
		{prompt, "", "", 6, 5, "the same prompt 6 times within 60 seconds"},
		{prompt, "sessions-together", "", 11, 10, "the same prompt from this caller's sessions 11 times within 60 seconds"},
		{prompt, ruleRounds, "", 3, 3, "3 identical rounds at the end of the conversation"},
		{tool, "repeat", "read_file", 5, 5, "the same tool call (read_file) with the same result 5 times"},
		{tool, "of a newer detector", "", 5, 5, "the same tool call with the same result 5 times"},
		{tool, "outcome", "ls", 3, 3, "the same result of the same tool call (ls) 3 times"},
		{tool, "parallel", "ls", 9, 5, "the same tool call (ls) 9 times in one turn"},
		{tool, ruleBreaker, "", 201, 200, "201 tool calls since the last human message"},
		{tool, ruleBreaker, "", 3, 200, "a session whose tool calls went round in circles"},
		{tool, "same-error", "ls", 5, 5, "the same error of a tool (ls) 5 times"},
		{tool, "all-failed", "", 5, 5, "5 rounds of tool calls in a row that all failed"},
		{tool, "not-offered", "fly", 3, 3, "3 calls of a tool that does not exist (fly)"},
		{tool, "same-empty", "grep", 6, 6, "the same empty result of a tool (grep) in 6 rounds"},
		{cycle, "ping-pong", "a,b", 3, 3, "the same cycle of tool calls (a, b) 3 times, with the same results"},
		{cycle, "cycle", "a,b,c", 3, 3, "the same cycle of tool calls (a, b, c) 3 times, with the same results"},
		{cycle, "wide", "", 30, 24, "the same few tool calls over and over in the last 30 rounds"},
		{cycle, "nothing-new", "", 4, 4, "4 rounds of tool calls in a row that brought nothing new"},
		{evidence.DetectorSemantic, "", "", 8, 8, "8 messages in a row that say again, in other words, what was said before"},
		{evidence.DetectorSemantic, "", "", 1, 1, "a message that says again, in other words, what was said before"},
		{evidence.DetectorUninspected, "", "", 40, 40, "40 request bodies that could not be read within 60 seconds"},
		{evidence.DetectorUsers, "", "", 11, 10, "11 changes of the same prompt's end user within 60 seconds"},
	} {
		f := &checkpb.Finding{
			Policy: "p", Detector: c.detector, Rule: c.rule, Tool: c.tool, HitCount: c.count, Threshold: c.threshold, WindowSeconds: 60,
			Action: checkpb.Action_ACTION_REJECT, LoopId: "L1",
		}
		message := loopMessage(f, 0)
		if !strings.HasPrefix(message, "Stopped by Unloop: "+c.want+" (recursive_loop_detected; detector "+c.detector) {
			t.Errorf("%s %s: %s, want %q", c.detector, c.rule, message, c.want)
		}
		if !strings.HasSuffix(message, "See `unloop loops show L1`, let through with `unloop loops release L1`.") {
			t.Errorf("%s %s: %s", c.detector, c.rule, message)
		}
		if answer := syntheticText(f); !strings.HasPrefix(answer, "Stopped by Unloop: "+c.want+" (recursive_loop_detected). The model was not asked. ") {
			t.Errorf("%s %s: says %s", c.detector, c.rule, answer)
		}
	}
}

// A message that comes back as a tool's result is known by the code in its beginning,
// however long the names of the tools are.
func TestTheCodeStandsNearTheBeginning(t *testing.T) {
	t.Parallel()
	f := &checkpb.Finding{
		Policy: "p", Detector: evidence.DetectorCycle, Rule: "cycle", Tool: strings.Repeat("größer_name,", 40), HitCount: 4_000_000_000, Action: checkpb.Action_ACTION_REJECT,
	}
	for _, text := range []string{loopMessage(f, 0), syntheticText(f)} {
		if !rounds.Marked([]byte(`{"error":{"message":"` + text)) {
			t.Errorf("the code comes late in %s", text)
		}
	}
}

func TestMessagesNameTheirLoopAndNoOther(t *testing.T) {
	t.Parallel()
	f := finding(checkpb.Action_ACTION_BREAK)
	f.Detector = evidence.DetectorTool
	if got := loopMessage(f, 0); !strings.Contains(got, " Nothing goes on until a human sends a message or the loop is released. See `unloop loops show l`") {
		t.Errorf("a break says %s", got)
	}
	f.LoopId = ""
	if got := loopMessage(f, 0); strings.Contains(got, "unloop loops") {
		t.Errorf("a loop without an id says %s", got)
	}
	f = finding(checkpb.Action_ACTION_WARN)
	if got := loopMessage(f, 0); strings.Contains(got, "Stopped") || strings.Contains(got, "release") {
		t.Errorf("a warning says %s", got)
	}
}
