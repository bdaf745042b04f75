package rounds_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/unloop/unloop/gateway/internal/wire/transcript/message"
)

// talk is a conversation of a system prompt, where there is one, and then of user
// and agent by turns.
func talk(system string, texts ...string) *conversation {
	tr := begin(48)
	if system != "" {
		say(tr, message.System, text(system))
	}
	for i, words := range texts {
		say(tr, []message.Role{message.User, message.Assistant}[i%2], text(words))
	}
	return tr
}

// shape writes a history as H for human messages, and for rounds as the tool with
// the numbers of call and result in the order in which they were first seen.
func shape(tr *conversation) string {
	seen := map[any]int{}
	number := func(d any) int {
		if _, ok := seen[d]; !ok {
			seen[d] = len(seen)
		}
		return seen[d]
	}
	var out []string
	for _, it := range history(tr) {
		if len(it.Calls) == 0 {
			out = append(out, "H")
			continue
		}
		c := it.Calls[0]
		mark := ""
		if c.Soft {
			mark += "~"
		}
		if c.Failed {
			mark += "!"
		}
		out = append(out, fmt.Sprintf("%s%s(%d)%d", c.Tool, mark, number(c.Key), number(c.Result)))
	}
	return strings.Join(out, " ")
}

const fences = "Answer with one command:\n```bash\ncommand\n```"

func TestActionsInTextAreRounds(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		system string
		texts  []string
		want   string
	}{
		"fences":            {fences, []string{"Go.", "Look.\n```bash\nls\n```", "Output: a", "Again.\n```bash\nls \n```", "Output: a"}, "H bash(0)1 bash(0)1"},
		"a failure":         {fences, []string{"Go.", "```bash\ncat b\n```", "Output:\ncat: b: No such file or directory"}, "H bash!(0)1"},
		"a final answer":    {fences, []string{"Go.", "```bash\nls\n```", "Output: a", "There is a.", "And now?", "```bash\nls\n```", "Output: a"}, "H bash(0)1 H bash(0)1"},
		"a nag":             {fences, []string{"Go.", "```bash\nls\n```", "Output: a", "Well.", "No command found.", "Well.", "No command found.", "Well.", "No command found."}, "H bash(0)1 H ~(2)3 ~(2)3"},
		"labels":            {"Use Action and Action Input.", []string{"Go.", "Thought: x\nAction: find\nAction Input: kiln", "Observation: none\nYou have 4 steps left.", "Thought: y\nAction: find\nAction Input: kiln", "Observation: none\nYou have 3 steps left."}, "H find(0)1 find(0)1"},
		"tags":              {"Tools: <read_file>", []string{"Go.", "<read_file>\n<path>a</path>\n</read_file>", "[read_file for 'a'] Result:\nx\n<environment_details>10:01</environment_details>", "I read.\n<read_file>\n<path>a</path>\n</read_file>", "[read_file for 'a'] Result:\nx\n<environment_details>10:02</environment_details>"}, "H read_file(0)1 read_file(0)1"},
		"a chat about code": {"", []string{"How do I count?", "```python\nfor i in a: print(i)\n```", "And backwards?", "```python\nfor i in b: print(i)\n```", "Thanks!", "You are welcome."}, ""},
		"the same exchange": {"", []string{"Run.", "SELECT 1", "no such table", "SELECT 1", "no such table"}, "H ~(0)1 ~(0)1"},
		"the same code":     {"", []string{"Go.", "Try:\n```python\nx()\n```", "It fails.", "Then:\n```python\nx()\n```", "It fails."}, "H python~(0)1 python~(0)1"},
		"a scratchpad":      {"", []string{"Question: how tall?\nThought: a\nAction: find\nAction Input: x\nObservation: none\nThought: b\nAction: find\nAction Input: x\nObservation: none\nThought:"}, "H find(0)1 find(0)1"},
	} {
		if got := shape(talk(c.system, c.texts...)); got != c.want && (c.want != "" || strings.Contains(got, "(")) {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}

func TestCallsOnTheWireTakeThePlaceOfThoseInText(t *testing.T) {
	t.Parallel()
	tr := talk(fences, "Go.", "```bash\nls\n```", "Output: a")
	say(tr, message.Assistant, call("x"))
	answer(tr, "x", "done", false)
	if got := shape(tr); got != "H H f(0)1" {
		t.Errorf("history %s", got)
	}
}

func TestWhatTheSystemSaysBehindAnActionIsItsResult(t *testing.T) {
	t.Parallel()
	tr := talk(`Answer with {"command": {}}`, "Go.")
	for range 2 {
		say(tr, message.Assistant, text(`{"command":{"name":"look"}}`))
		say(tr, message.System, text("Command look returned: a shelf"))
		say(tr, message.User, text("Choose the next command."))
	}
	if got := shape(tr); got != "H look(0)1 look(0)1" {
		t.Errorf("history %s", got)
	}
}
