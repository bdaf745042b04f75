package conformance

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/unloop/unloop/gateway/internal/text/recognize"
	"github.com/unloop/unloop/gateway/internal/wire/provider"
	"github.com/unloop/unloop/schemas/fingerprint"
)

// Run runs the suite against a provider of prompts, with conversations written in
// its format.
func Run(t *testing.T, p provider.Provider, write Format) {
	t.Helper()
	s := suite{p, write}
	t.Run("rounds and human messages are found", s.rounds)
	t.Run("parallel calls are one round", s.parallel)
	t.Run("a message that grows keeps its calls", s.growing)
	t.Run("older items leave a chain", s.chain)
	t.Run("tools that were not offered are known", s.notOffered)
	t.Run("reminders are no human turn", s.reminders)
	t.Run("our own refusals are known", s.ours)
	t.Run("the newest exchange is found", s.exchange)
	t.Run("the newest rounds are shown as they are", s.shown)
	t.Run("the tail is equal when the newest messages are", s.tail)
	t.Run("agents and openings differ as they should", s.identity)
	t.Run("a body without messages is no prompt", s.empty)
	t.Run("ambiguous and broken bodies are refused", s.broken)
	t.Run("hints are in their place and change nothing else", s.hints)
	t.Run("histories are repaired where they are broken", s.repairs)
	t.Run("answers in the model's place are whole", s.answers)
	t.Run("answers in the model's place are no evidence", s.answersComeBack)
	t.Run("refusals are JSON with the detail twice", s.refusals)
}

type suite struct {
	p     provider.Provider
	write Format
}

// Fixing is a session with one round that failed and one that did not.
func Fixing() Conversation {
	return Conversation{
		Model: "m-1", System: "You fix code. Now: 2026-05-22T14:30:00Z", Tools: []string{"read_file", "bash"},
		Turns: []Turn{
			{Human: "Fix the test, please."},
			{Said: "I look at it.", Calls: []Call{{"c1", "read_file", `{"path":"a.go","limit":10}`}}},
			{Results: []Result{{ID: "c1", Tool: "read_file", Text: "package a\n\nfunc A() {}\n"}}},
			{Calls: []Call{{"c2", "bash", `{"command":"systemctl status x"}`}}},
			{Results: []Result{{ID: "c2", Tool: "bash", Text: "Error: no such unit", Failed: true}}},
		},
	}
}

func (s suite) parse(t *testing.T, c Conversation, o provider.Options) *provider.Prompt {
	t.Helper()
	o.Path = pathFor(s.p.Name(), c.Model)
	prompt, err := s.p.Parse(s.write(c), o)
	if err != nil || prompt == nil {
		t.Fatalf("parse: %v, %v", prompt, err)
	}
	return prompt
}

func (s suite) items(t *testing.T, c Conversation) []provider.Item {
	t.Helper()
	items, before := s.parse(t, c, provider.Options{Items: 50}).Transcript.History(provider.Rules{})
	if !before.IsZero() {
		t.Error("something was left out")
	}
	return items
}

// ignoreID leaves out what formats may tell calls apart by.
var ignoreID = cmpopts.IgnoreFields(provider.ToolCall{}, "ID")

func (s suite) rounds(t *testing.T) {
	t.Parallel()
	want := []provider.Item{
		{Human: recognize.Said([]byte("Fix the test, please."))},
		{Calls: []provider.ToolCall{{
			Tool: "read_file", Key: recognize.Call("read_file", []byte(`{"limit":10.0, "path":"\u0061.go"}`)),
			Result: recognize.Result([]byte("package a\n\nfunc A() {}\n"), nil),
		}}},
		{Calls: []provider.ToolCall{{
			Tool: "bash", Key: recognize.Call("bash", []byte(`{"command":"systemctl status x"}`)), Poll: true, Failed: true,
			Result: recognize.Result([]byte("Error: no such unit"), nil), Class: recognize.ErrorClass([]byte("Error: no such unit")), Plain: true,
		}}},
	}
	items := s.items(t, Fixing())
	if diff := cmp.Diff(want, items, ignoreID); diff != "" {
		t.Error(diff)
	}
	if len(items) == 3 && (items[1].Calls[0].ID.IsZero() || items[1].Calls[0].ID == items[2].Calls[0].ID) {
		t.Error("the calls have no ids of their own")
	}
	c := Fixing()
	c.Turns = c.Turns[:4]
	if last := s.items(t, c)[2].Calls[0]; !last.Result.IsZero() {
		t.Error("a call that is still open has a result")
	}
}

func (s suite) parallel(t *testing.T) {
	t.Parallel()
	c := Fixing()
	c.Turns = append(c.Turns[:1],
		Turn{Calls: []Call{{"p1", "bash", `{"n":1}`}, {"p2", "bash", `{"n":2}`}, {"p3", "read_file", `{}`}}},
		Turn{Results: []Result{{ID: "p1", Tool: "bash", Text: "one"}, {ID: "p2", Tool: "bash", Text: "two"}, {ID: "p3", Tool: "read_file", Text: ""}}})
	items := s.items(t, c)
	if len(items) != 2 || len(items[1].Calls) != 3 {
		t.Fatalf("items are %+v", items)
	}
	for i, want := range []string{"one", "two", ""} {
		if items[1].Calls[i].Result != recognize.Result([]byte(want), nil) {
			t.Errorf("call %d has not the result %q", i, want)
		}
	}
}

// growing checks that a client that puts all steps of a run into one message sends the
// same calls in each request, and one more.
func (s suite) growing(t *testing.T) {
	t.Parallel()
	c := Fixing()
	var said, answered Turn
	var before []provider.ToolCall
	for i := range 6 {
		id := fmt.Sprint("g", i)
		said.Said += fmt.Sprintf("Step %d. ", i)
		said.Calls = append(said.Calls, Call{id, "bash", `{"command":"make"}`})
		answered.Results = append(answered.Results, Result{ID: id, Tool: "bash", Text: "no rule"})
		c.Turns = append(c.Turns[:1:1], said, answered)
		items := s.items(t, c)
		if len(items) != 2 || len(items[1].Calls) != i+1 {
			t.Fatalf("%d steps: items are %+v", i+1, items)
		}
		if diff := cmp.Diff(before, items[1].Calls[:i]); i > 0 && diff != "" {
			t.Errorf("%d steps: %s", i+1, diff)
		}
		if before = items[1].Calls; before[i].Result.IsZero() || before[i].ID.IsZero() {
			t.Errorf("%d steps: the newest is %+v", i+1, before[i])
		}
	}
}

func (s suite) chain(t *testing.T) {
	t.Parallel()
	all := s.items(t, Fixing())
	var want fingerprint.Digest
	want = fingerprint.Chain(want, fingerprint.HumanKey(all[0].Human))
	want = fingerprint.Chain(want, fingerprint.RoundKey([]fingerprint.Digest{all[1].Calls[0].Key}))
	items, before := s.parse(t, Fixing(), provider.Options{Items: 1}).Transcript.History(provider.Rules{})
	if before != want {
		t.Error("the chain is not that of the two items before")
	}
	if diff := cmp.Diff(all[2:], items); diff != "" {
		t.Error(diff)
	}
}

func (s suite) notOffered(t *testing.T) {
	t.Parallel()
	c := Fixing()
	c.Tools = []string{"bash"}
	items := s.items(t, c)
	if !items[1].Calls[0].NotOffered || items[2].Calls[0].NotOffered {
		t.Error("read_file alone is not offered")
	}
	c.Tools = nil
	if s.items(t, c)[1].Calls[0].NotOffered {
		t.Error("a request that lists no tools says nothing about them")
	}
}

func (s suite) reminders(t *testing.T) {
	t.Parallel()
	c := Fixing()
	c.Turns[0].Beside = "<system-reminder>The user's files changed.</system-reminder>"
	c.Turns[2].Beside = "<system-reminder>Keep your list of tasks.</system-reminder>"
	if diff := cmp.Diff(s.items(t, Fixing()), s.items(t, c)); diff != "" {
		t.Error(diff)
	}
	if s.parse(t, c, provider.Options{}).Opening != s.parse(t, Fixing(), provider.Options{}).Opening {
		t.Error("a reminder changes the opening")
	}
	c.Turns[0].Human = "This session is being continued from a previous conversation that ran out of context."
	if !s.items(t, c)[0].Summary {
		t.Error("a summary was taken for a human's words")
	}
}

func (s suite) ours(t *testing.T) {
	t.Parallel()
	c := Fixing()
	c.Turns[4].Results[0].Text = `recursive_loop_detected: the same call was made 5 times`
	c.Turns[2].Results[0].Text = "Try something else.\nYou have repeated yourself."
	prompt := s.parse(t, c, provider.Options{Items: 5})
	items, _ := prompt.Transcript.History(provider.Rules{Hints: []string{"Try something else."}})
	if !items[1].Calls[0].Ours || !items[2].Calls[0].Ours {
		t.Error("not known as our own")
	}
	c.Turns[2].Results[0].Text = strings.Repeat("a long result\n", 40)
	plain := s.items(t, c)[1].Calls[0]
	for _, n := range []string{"3", "4"} {
		c.Turns[2].Results[0].Text = strings.Repeat("a long result\n", 40) + "recursive_loop_detected: The tool was called " + n + " times."
		if noticed := s.items(t, c)[1].Calls[0]; noticed.Ours || noticed.Result != plain.Result {
			t.Errorf("a result with our words behind it: %+v; want %+v", noticed, plain)
		}
	}
	items, _ = prompt.Transcript.History(provider.Rules{})
	if items[1].Calls[0].Ours {
		t.Error("without the hint's text it is a result")
	}
}

func (s suite) exchange(t *testing.T) {
	t.Parallel()
	c := Fixing()
	c.Turns[4].Beside = "<system-reminder>Keep your list of tasks.</system-reminder>"
	for _, want := range []struct {
		turns          int
		said, answered string
	}{
		{1, "", "Fix the test, please."},
		{3, "I look at it.\nread_file {\"path\":\"a.go\",\"limit\":10}", "package a\n\nfunc A() {}\n"},
		{5, "bash {\"command\":\"systemctl status x\"}", "Error: no such unit"},
	} {
		one := c
		one.Turns = c.Turns[:want.turns]
		prompt := s.parse(t, one, provider.Options{})
		said, answered := prompt.Transcript.Exchange(1000)
		if sameJSON(said) != sameJSON(want.said) || answered != want.answered {
			t.Errorf("after %d turns it is %q and %q", want.turns, said, answered)
		}
		if _, answered = prompt.Transcript.Exchange(5); len(answered) > 5 || !strings.HasSuffix(want.answered, answered) {
			t.Errorf("its end is %q", answered)
		}
	}
}

// sameJSON undoes the order that writers give members.
func sameJSON(said string) string {
	return strings.Replace(said, `{"limit":10,"path":"a.go"}`, `{"path":"a.go","limit":10}`, 1)
}

func (s suite) tail(t *testing.T) {
	t.Parallel()
	tail := func(c Conversation) []provider.Message { return s.parse(t, c, provider.Options{Tail: 3}).Tail }
	base := tail(Fixing())
	if len(base) != 3 {
		t.Fatalf("the tail has %d messages", len(base))
	}
	longer := Fixing()
	longer.System = "Another one."
	longer.Turns = append([]Turn{{Human: "Hello."}, {Said: "Hi."}}, longer.Turns...)
	renamed := Fixing()
	for i, id := range map[int]string{1: "x1", 3: "x2"} {
		renamed.Turns[i].Calls[0].ID, renamed.Turns[i+1].Results[0].ID = id, id
	}
	for name, c := range map[string]Conversation{"what came before": longer, "an id": renamed} {
		if diff := cmp.Diff(base, tail(c)); diff != "" {
			t.Errorf("%s changes the tail: %s", name, diff)
		}
	}
	for name, change := range map[string]func(*Conversation){
		"arguments": func(c *Conversation) { c.Turns[3].Calls[0].Args = `{"command":"ls"}` },
		"a tool":    func(c *Conversation) { c.Turns[3].Calls[0].Tool = "sh" },
		"a result":  func(c *Conversation) { c.Turns[4].Results[0].Text = "fine" },
	} {
		c := Fixing()
		change(&c)
		if got := tail(c); cmp.Equal(base, got) || got[0] != base[0] {
			t.Errorf("another %s must change the newest messages alone", name)
		}
	}
	short := Fixing()
	short.Turns = short.Turns[:1]
	if got := tail(short); len(got) != 2 {
		t.Errorf("system prompt and one message are %d", len(got))
	}
}

func (s suite) identity(t *testing.T) {
	t.Parallel()
	base := s.parse(t, Fixing(), provider.Options{})
	if base.Model != "m-1" || base.Transcript.Messages() == 0 {
		t.Errorf("prompt is %+v", base)
	}
	for name, c := range map[string]struct {
		change         func(*Conversation)
		agent, opening bool
	}{
		"a clock":   {func(c *Conversation) { c.System = "You fix code. Now: 2026-05-22T14:31:07Z" }, true, true},
		"a message": {func(c *Conversation) { c.Turns = c.Turns[:3] }, true, true},
		"an order":  {func(c *Conversation) { c.Tools = []string{"bash", "read_file"} }, true, true},
		"a tool":    {func(c *Conversation) { c.Tools = append(c.Tools, "grep") }, false, true},
		"a system":  {func(c *Conversation) { c.System = "You plan." }, false, false},
		"a human":   {func(c *Conversation) { c.Turns[0].Human = "Plan it." }, true, false},
	} {
		other := Fixing()
		c.change(&other)
		got := s.parse(t, other, provider.Options{})
		if (got.Transcript.Agent() == base.Transcript.Agent()) != c.agent || (got.Opening == base.Opening) != c.opening {
			t.Errorf("%s: same agent must be %v, same opening %v", name, c.agent, c.opening)
		}
	}
}

func (s suite) empty(t *testing.T) {
	t.Parallel()
	for _, body := range []string{`{}`, `{"model":"m"}`, `{"messages":[],"input":[],"contents":[]}`, `{"messages":null,"input":null,"contents":null}`} {
		if prompt, err := s.p.Parse([]byte(body), provider.Options{Tail: 3, Items: 3}); prompt != nil || err != nil {
			t.Errorf("%s: %v, %v", body, prompt, err)
		}
	}
}

func (s suite) broken(t *testing.T) {
	t.Parallel()
	whole := string(s.write(Fixing()))
	for name, body := range map[string]string{
		"nothing": "", "half": whole[:len(whole)/2], "two": whole + whole, "a list": "[" + whole + "]", "invalid UTF-8": strings.Replace(whole, "Fix", "\xff", 1),
		"a name twice":      `{"user":"a","user":"b",` + whole[1:],
		"a name twice deep": strings.Replace(whole, `"type"`, `"type":1,"\u0074ype"`, 1),
		"depth":             `{"x":` + strings.Repeat("[", 1000) + strings.Repeat("]", 1000) + "," + whole[1:],
	} {
		if prompt, err := s.p.Parse([]byte(body), provider.Options{Tail: 3, Items: 3}); err == nil {
			t.Errorf("%s is accepted: %+v", name, prompt)
		}
		if _, err := s.p.Hint([]byte(body), "stop", provider.Head); !errors.Is(err, provider.ErrNoPlace) {
			t.Errorf("%s takes a hint: %v", name, err)
		}
	}
}
