package textact_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/unloop/unloop/gateway/internal/wire/transcript/rounds/textact"
)

func TestTheLastActionOfAMessageIsRead(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		text, tool, call string
		form             textact.Form
	}{
		"nothing":                {text: "I do not know.", form: textact.None},
		"a comparison":           {text: "It holds that a < b and c > d.", form: textact.None},
		"a fenced command":       {"Let me look.\n\n```bash\nls -la\n```", "bash", "ls -la", textact.Fence},
		"a fence without words":  {"```\nopen a.py\n```", "fence", "open a.py", textact.Fence},
		"the last of two fences": {"Not\n```sh\nrm a\n```\nbut\n```sh\nls\n```\nthen.", "sh", "ls", textact.Fence},
		"an open fence":          {text: "```bash\nls", form: textact.None},
		"ReAct":                  {"Thought: hm\nAction: search\nAction Input: {\"q\": \"kiln\"}", "search", `search {"q": "kiln"}`, textact.Label},
		"ReAct in one line":      {"Thought 3: hm\nAction 3: Lookup[kiln]", "Lookup", "Lookup[kiln]", textact.Label},
		"a made-up observation":  {"Action: search\nAction Input: kiln\nObservation: found it", "search", "search kiln", textact.Label},
		"Markdown":               {"**Thought:** hm\n**Action:** go to desk 1", "go", "go to desk 1", textact.Label},
		"the shape of one":       {text: "Invalid format. Use:\nThought: you should always think about what to do\nAction: the action to take, should be one of [search, read]\nAction Input: the input to the action", form: textact.None},
		"its shape in a fence":   {text: "I must use this format:\n```\nThought: hm\nAction: the action to take, only one name of [search]\nObservation: the result of the action\n```", form: textact.None},
		"its shape in JSON":      {text: "{\"action\": \"$TOOL_NAME\", \"action_input\": \"$INPUT\"}", form: textact.None},
		"an action and a shape":  {"Action: search\nAction Input: kiln\nI encountered an error. The format is:\nAction: the action to take\nAction Input: the input", "search", "search kiln\nI encountered an error. The format is:", textact.Label},
		"an action named so":     {"Action: theorem_search\nAction Input: kiln", "theorem_search", "theorem_search kiln", textact.Label},
		"JSON behind Action":     {"Action:\n```json\n{\"action\": \"search\", \"action_input\": \"kiln\"}\n```", "search", "action \"search\"\naction_input \"kiln\"\n", textact.JSON},
		"execute":                {"<thought>hm</thought>\n<execute>\nprint(1)\n</execute>", "execute", "print(1)", textact.Tag},
		"execute, cut off":       {"hm <execute>\nprint(1)\n", "execute", "print(1)", textact.Tag},
		"a tag with members":     {"<thinking>I read it.</thinking>\n<read_file>\n<path>a.md</path>\n</read_file>", "read_file", "<path>a.md</path>", textact.Tag},
		"a function":             {"<function=bash>\n<parameter=cmd>ls</parameter>\n</function>", "function", "<function=bash>\n<parameter=cmd>ls</parameter>", textact.Tag},
		"a call in a tag":        {"<tool_call>\n{\"name\": \"look\", \"arguments\": {\"at\": 1}}\n</tool_call>", "look", "name \"look\"\narguments {\"at\": 1}\n", textact.JSON},
		"a tag in a tag":         {"<function_calls>\n<invoke name=\"look\">\n<at>1</at>\n</invoke>\n</function_calls>", "invoke", "<invoke name=\"look\">\n<at>1</at>", textact.Tag},
		"a call without either":  {"<tool_call>\nlook\n</tool_call>", "tool_call", "look", textact.Tag},
		"a fence in a tag":       {"<execute_bash>\n```bash\nls\n```\n</execute_bash>", "execute_bash", "ls", textact.Tag},
		"very many open tags":    {text: manyTags(), form: textact.None},
		"an empty action":        {text: "Action:\nObservation: x", form: textact.None},
		"an empty fence":         {text: "```\n \n```", form: textact.None},
		"JSON in a list":         {text: `["action"]`, form: textact.None},
		"thoughts alone":         {text: "<thinking>What now?</thinking> Well.", form: textact.None},
		"JSON":                   {`{"thoughts": {"text": "hm 7"}, "command": {"name": "read_file", "args": {"f": "a"}}}`, "read_file", "command {\"name\": \"read_file\", \"args\": {\"f\": \"a\"}}\n", textact.JSON},
		"JSON that is no action": {text: `{"name": "Ann", "age": 4}`, form: textact.None},
		"a code block of HTML":   {"```html\n<main_part>\n<p>x</p>\n</main_part>\n```", "html", "<main_part>\n<p>x</p>\n</main_part>", textact.Fence},
	} {
		a := textact.Find([]byte(c.text))
		if a.Form != c.form || a.Tool != c.tool || string(a.Call) != c.call {
			t.Errorf("%s: form %d, tool %q, call %q", name, a.Form, a.Tool, a.Call)
		}
	}
}

// manyTags opens more elements than are searched for their end.
func manyTags() string {
	var b strings.Builder
	for i := range 100 {
		fmt.Fprintf(&b, "<tag%d>", i)
	}
	return b.String()
}

func TestScratchpadsNeedTwoAnsweredActions(t *testing.T) {
	t.Parallel()
	const step = "Thought: a\nAction: find\nAction Input: x\nObservation: none\n"
	for name, c := range map[string]struct {
		text         string
		steps, begin int
	}{
		"two":                  {"Question: q\n" + step + step + "Thought:", 2, len("Question: q\n")},
		"examples before them": {"Question: e\n" + step + "Question: q\n" + step + step + "Thought:", 2, len("Question: e\n" + step + "Question: q\n")},
		"one":                  {"Question: q\n" + step + "Thought:", 0, 0},
		"no thoughts":          {"Question: q\nAction: a\nObservation: 1\nAction: b\nObservation: 2\nAction: c", 2, len("Question: q\n")},
		"words without labels": {"Action and Observation, Action and Observation", 0, 0},
		"the last is open":     {"Question: q\n" + step + step + "Thought: b\nAction: find", 2, len("Question: q\n")},
	} {
		steps, begin := textact.Scratchpad([]byte(c.text))
		if len(steps) != c.steps || begin != c.begin {
			t.Errorf("%s: %d steps from %d, want %d from %d", name, len(steps), begin, c.steps, c.begin)
		}
	}
}

func TestWhatAHarnessAddsIsNoResult(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ text, want string }{
		"as it is":       {"four apples", "four apples"},
		"a label":        {"Observation: four apples", "four apples"},
		"a long label":   {"[read_file for 'a.md'] Result:\nfour apples", "four apples"},
		"a numbered one": {"Observation 12: four apples", "four apples"},
		"two words":      {"MySQL Database Output: [(4,)]", "[(4,)]"},
		"a colon":        {"apples: 4", "apples: 4"},
		"surroundings":   {"four apples\n<environment_details>\n# Current Time\n10:07:11\n</environment_details>", "four apples"},
		"cut off":        {"four apples<environment_details>\n# Current", "four apples"},
		"a countdown":    {"four apples\nYou have 12 steps left and 2 chances to propose solution left.", "four apples\nYou have 0 steps left and 0 chances to propose solution left."},
		"one digit less": {"four apples\nYou have 9 steps left and 2 chances to propose solution left.", "four apples\nYou have 0 steps left and 0 chances to propose solution left."},
		"a step":         {"Step 3 of 10\nfour apples", "Step 0 of 0\nfour apples"},
		"counts digits":  {"four apples\n9 of 10 turns remaining", "four apples\n0 of 0 turns remaining"},
		"progress":       {"Step 3/10 : COPY a b\n4 files", "Step 3/10 : COPY a b\n4 files"},
	} {
		if diff := cmp.Diff(c.want, string(textact.Result([]byte(c.text)))); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestResultsOfProgramsAreToldFromWords(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]bool{
		"Observation: x": true, "Output:\nx": true, "<returncode>0</returncode>": true, "a.txt\n(Current directory: /)\nbash-$": true, "No output": true,
		"Thanks, and backwards?": false, "It costs 4 $ more": false, "": false,
	} {
		if got := textact.LooksLikeResult([]byte(text)); got != want {
			t.Errorf("%q: %v, want %v", text, got, want)
		}
	}
}

const react = `Answer in steps.

Question: How many moons has Mars?
Thought: I know it.
Action: search[Mars]
Observation: A planet.
Thought: Done.
Action: finish[2]
Observation: Right.

Question: How tall is the lighthouse?
Thought: I search for it.
Action: search
Action Input: lighthouse
Observation: Nothing found.
Thought: Once more.
Action: search
Action Input: lighthouse
Observation: Nothing found.
Thought:`

func TestAnAgentsScratchpadIsReadBehindTheExamples(t *testing.T) {
	t.Parallel()
	steps, begin := textact.Scratchpad([]byte(react))
	if len(steps) != 2 || !strings.HasSuffix(react[:begin], "the lighthouse?\n") {
		t.Fatalf("%d steps from %d on", len(steps), begin)
	}
	for _, s := range steps {
		if s.Action.Tool != "search" || string(s.Action.Call) != "search lighthouse" || string(textact.Result(s.Answer)) != "Nothing found." {
			t.Errorf("%q: %q", s.Action.Call, s.Answer)
		}
	}
	for _, text := range []string{"", "Action: a\nObservation: b", "Our Action plan and our Observation.\nAction and Observation"} {
		if steps, _ := textact.Scratchpad([]byte(text)); steps != nil {
			t.Errorf("%q has %d steps", text, len(steps))
		}
	}
}

func FuzzFind(f *testing.F) {
	for _, seed := range []string{react, "<a><b></a>", "``````", "{\"action\":", "Action:\nAction Input:", "<function=", "<a =>"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		a := textact.Find([]byte(text))
		if a.Form != textact.None && (a.Tool == "" || a.Mark == "") {
			t.Errorf("%+v", a)
		}
		steps, begin := textact.Scratchpad([]byte(text))
		if begin > len(text) || len(steps) == 1 {
			t.Errorf("%d steps from %d on", len(steps), begin)
		}
		textact.Result([]byte(text))
	})
}

func TestManyOpenTagsAreReadInLinearTime(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	for i := range 20_000 {
		b.WriteString("<a" + strings.Repeat("b", i%50) + ">")
	}
	if a := textact.Find([]byte(b.String())); a.Form != textact.None {
		t.Errorf("%+v", a)
	}
}

func TestToolsResultsAreReadWithoutStepsBesideThem(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("an apple\n", 1000)
	for name, c := range map[string]struct{ text, want string }{
		"beside":  {"four apples\nYou have 12 steps left.", "four apples\nYou have 0 steps left."},
		"alone":   {"You have 12 steps left.", "You have 12 steps left."},
		"a long":  {long + "You have 12 steps left.", long + "You have 0 steps left."},
		"a digit": {long + "You have 9 steps left.", long + "You have 0 steps left."},
		"nothing": {long, strings.TrimSpace(long)},
		"tokens":  {"four apples\n[context: 12300 of 200000 tokens used]", "four apples\n[context: 0 of 0 tokens used]"},
		"money":   {"four apples\nCost so far: $0.12", "four apples\nCost so far: $0.0"},
		"a price": {"four apples\nThey cost 12", "four apples\nThey cost 12"},
		"content": {"line 12\nline 13", "line 12\nline 13"},
	} {
		if got := string(textact.WithoutSteps([]byte(c.text))); got != c.want {
			t.Errorf("%s: %q", name, got[max(0, len(got)-60):])
		}
	}
}
