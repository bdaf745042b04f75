package finding

import (
	"strings"
	"testing"
	"time"
)

func TestFindingsAreToldInWords(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		detector, rule, tool string
		count, threshold     int
		title, text          string
	}{
		{Request, "", "", 4, 4, "identical requests", "the same request 4 times within 60 seconds"},
		{Prompt, "", "", 6, 5, "the same prompt", "the same prompt 6 times within 60 seconds"},
		{Prompt, SessionsTogether, "", 11, 10, "the same prompt in several sessions", "the same prompt from this caller's sessions 11 times within 60 seconds"},
		{Prompt, IdenticalRounds, "", 3, 3, "identical rounds", "3 identical rounds at the end of the conversation"},
		{Tool, Repeat, "ls", 5, 5, "the same tool call (ls)", "the same tool call (ls) with the same result 5 times"},
		{Tool, "of a newer detector", "", 5, 5, "the same tool call", "the same tool call with the same result 5 times"},
		{Tool, Breaker, "", 201, 200, "too many tool calls", "201 tool calls since the last human message"},
		{Tool, Breaker, "", 3, 200, "too many tool calls", "a session whose tool calls went round in circles"},
		{Tool, SameError, "ls", 5, 5, "the same error (ls)", "the same error of a tool (ls) 5 times"},
		{Cycle, PingPong, "a,b", 3, 3, "two rounds of tool calls by turns (a, b)", "the same cycle of tool calls (a, b) 3 times, with the same results"},
		{Semantic, "", "", 8, 8, "the same in other words", "8 messages in a row that say again, in other words, what was said before"},
		{Semantic, "", "", 1, 1, "the same in other words", "a message that says again, in other words, what was said before"},
		{Users, "", "", 11, 10, "the same prompt with changing end users", "11 changes of the same prompt's end user within 60 seconds"},
		{"new", "rule", "", 2, 2, "new", "new 2 times within 60 seconds"},
	} {
		f := Facts{Detector: c.detector, Rule: c.rule, Tool: c.tool, Count: c.count, Threshold: c.threshold, Window: time.Minute}
		if title, text := f.Title(), f.Text(); title != c.title || text != c.text {
			t.Errorf("%s %s: %q, %q; want %q, %q", c.detector, c.rule, title, text, c.title, c.text)
		}
	}
	if got := (Facts{Detector: Prompt, Count: 3, Window: 4 * time.Hour}).Sentence(); got != "The same prompt 3 times within 4 hours." {
		t.Errorf("a sentence is %q", got)
	}
}

func TestKindsAreWhole(t *testing.T) {
	t.Parallel()
	seen := map[[2]string]bool{}
	for _, k := range Catalogue() {
		name := [2]string{k.Detector, k.Rule}
		if seen[name] || k.Title == "" || k.Text == "" || k.Compares == "" {
			t.Errorf("%q is incomplete, or there twice: %+v", name, k)
		}
		seen[name] = true
		f := Facts{Detector: k.Detector, Rule: k.Rule, Tool: strings.Repeat("größer_name,", 40), Count: 7, Window: 90 * time.Second}
		if all := f.Title() + f.Text() + f.Hint(); strings.ContainsAny(all, "{}") || len(f.Title()) > 128 {
			t.Errorf("%q has placeholders, or is long: %s", name, all)
		}
		if hint := f.Hint(); k.Detector != CircuitBreaker && !strings.HasSuffix(hint, ".") {
			t.Errorf("%q tells the model %q", name, hint)
		}
		if k.Rule != "" && DetectorOf(k.Rule) != k.Detector {
			t.Errorf("the rule %s belongs to %s", k.Rule, DetectorOf(k.Rule))
		}
		if !seen[[2]string{k.Detector}] {
			t.Errorf("the detector %s does not come first", k.Detector)
		}
	}
}
