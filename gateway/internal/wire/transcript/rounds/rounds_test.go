package rounds_test

import (
	"fmt"
	"strconv"
	"testing"

	"github.com/unloop/unloop/gateway/internal/text/recognize"
	"github.com/unloop/unloop/gateway/internal/wire/transcript/message"
	"github.com/unloop/unloop/gateway/internal/wire/transcript/rounds"
	"github.com/unloop/unloop/schemas/fingerprint"
)

// conversation adds messages to rounds part by part.
type conversation struct {
	*rounds.Rounds
	open []message.Part
}

func begin(items int) *conversation {
	r := rounds.New(items, &message.Digester{})
	return &conversation{Rounds: &r}
}

func (c *conversation) End(role message.Role) {
	c.Message(message.Effective(role, c.open), c.open)
	c.open = nil
}

func text(s string) message.Part {
	return message.Part{Kind: message.Text, Value: []byte(strconv.Quote(s))}
}

func call(id string) message.Part {
	return message.Part{Kind: message.Call, ID: []byte(id), Name: []byte("f"), Value: []byte(`{}`)}
}

func say(c *conversation, role message.Role, parts ...message.Part) {
	c.open = append(c.open, parts...)
	c.End(role)
}

func answer(c *conversation, id, words string, pending bool) {
	content := text(words)
	content.Inside = true
	say(c, message.Tool, message.Part{Kind: message.Result, ID: []byte(id), Pending: pending}, content)
}

func result(words string) fingerprint.Digest { return recognize.Result([]byte(words), nil) }

func history(c *conversation) []rounds.Item {
	items, _ := c.History(rounds.Rules{})
	return items
}

func TestAnIdThatIsUsedAgainIsAnotherCall(t *testing.T) {
	t.Parallel()
	tr := begin(10)
	for i := range 3 {
		say(tr, message.Assistant, call("x"))
		answer(tr, "x", fmt.Sprint("answer ", i), false)
	}
	for i, it := range history(tr) {
		if it.Calls[0].Result != result(fmt.Sprint("answer ", i)) {
			t.Errorf("round %d has another's answer", i)
		}
	}
}

func TestTheFirstFinalAnswerCounts(t *testing.T) {
	t.Parallel()
	tr := begin(10)
	say(tr, message.Assistant, call("x"))
	answer(tr, "x", "wait", true)
	if got := history(tr)[0].Calls[0]; !got.Result.IsZero() {
		t.Error("what is pending is no result")
	}
	answer(tr, "x", "first", false)
	answer(tr, "x", "second", false)
	answer(tr, "y", "of no call", false)
	if got := history(tr)[0].Calls[0]; got.Result != result("first") {
		t.Error("the first final answer was not taken")
	}
}

func TestAnAnswerLateIsFound(t *testing.T) {
	t.Parallel()
	tr := begin(10)
	say(tr, message.Assistant, call("x"))
	say(tr, message.User, text("never mind"))
	say(tr, message.Assistant, call("y"))
	answer(tr, "x", "late", false)
	items := history(tr)
	if len(items) != 3 || items[0].Calls[0].Result != result("late") || !items[2].Calls[0].Result.IsZero() {
		t.Errorf("%+v", items)
	}
}

func TestEqualCallsAreToldApartByWhatIsAroundThem(t *testing.T) {
	t.Parallel()
	tr := begin(10)
	bare := call("")
	marked := bare
	marked.Mark = []byte("sig")
	say(tr, message.Assistant, bare)
	say(tr, message.Assistant, text("again"), bare)
	say(tr, message.Assistant, marked)
	say(tr, message.Assistant, call("x"))
	seen := map[fingerprint.Digest]bool{}
	for i, it := range history(tr) {
		id := it.Calls[0].ID
		if id.IsZero() != (i == 0) || seen[id] {
			t.Errorf("round %d: id %v", i, id)
		}
		seen[id] = true
	}
}

func TestARoundHasBoundedCalls(t *testing.T) {
	t.Parallel()
	tr := begin(2)
	for range 3 {
		for i := range 10_000 {
			tr.open = append(tr.open, call(fmt.Sprint(i)))
		}
		tr.End(message.Assistant)
	}
	items := history(tr)
	if len(items) != 2 || len(items[1].Calls) > 256 {
		t.Fatalf("%d items", len(items))
	}
	last := call("9999")
	if calls := items[1].Calls; len(calls) < 128 || calls[len(calls)-1].ID != message.CallID(last.ID) {
		t.Errorf("the newest of %d calls is %v", len(calls), calls[len(calls)-1].ID)
	}
}

// known is a call that the server keeps.
func known(id string) message.ToolCall {
	return message.ToolCall{Tool: "f", Key: fingerprint.String([]byte("key of " + id)), ID: message.CallID([]byte(id))}
}

func TestResultsOfCallsBeforeTheHistoryAreStrays(t *testing.T) {
	t.Parallel()
	c := begin(10)
	answer(c, "a", "one", false)
	answer(c, "a", "twice", false)
	answer(c, "b", "pending", true)
	if !c.Strays() {
		t.Fatal("no strays")
	}
	with, open := c.Precede([]message.ToolCall{known("a"), known("b"), known("z")}, &message.Digester{})
	if len(open) != 2 || open[0].ID != known("b").ID || open[1].ID != known("z").ID {
		t.Errorf("open calls %+v", open)
	}
	if items := history(c); len(items) != 0 {
		t.Errorf("the history before has %+v", items)
	}
	items := history(&conversation{Rounds: &with})
	if len(items) != 1 || len(items[0].Calls) != 1 || items[0].Calls[0].Result != result("one") {
		t.Errorf("history %+v", items)
	}
	if c = begin(10); c.Strays() {
		t.Error("strays out of nothing")
	}
	c.Tools = [][]byte{[]byte("g")}
	answer(c, "a", "one", false)
	with, _ = c.Precede([]message.ToolCall{known("a")}, &message.Digester{})
	if items = history(&conversation{Rounds: &with}); !items[0].Calls[0].NotOffered {
		t.Error("a kept call of a tool that is not offered is not marked")
	}
}

func TestCallsThatOnlyTheServerHasAreIdentified(t *testing.T) {
	t.Parallel()
	c := begin(10)
	answer(c, "a", "one", false)
	stray := message.Part{Kind: message.Result, ID: []byte("a")}
	var none fingerprint.Digest
	unknown := c.Elsewhere(none, &stray)
	if unknown.IsZero() {
		t.Error("a stray of an unknown call changes nothing")
	}
	with, _ := c.Precede([]message.ToolCall{known("a")}, &message.Digester{})
	c = &conversation{Rounds: &with}
	if got := c.Elsewhere(none, &stray); got.IsZero() || got == unknown {
		t.Error("a stray of a known call is that of an unknown one")
	}
	for _, p := range []message.Part{{Kind: message.Result, ID: []byte("b")}, {Kind: message.Result}, {Kind: message.Text, ID: []byte("a")}} {
		if got := c.Elsewhere(none, &p); !got.IsZero() {
			t.Errorf("%+v is a stray", p)
		}
	}
}

func TestResultsWithoutIDsAreThoseOfTheirTool(t *testing.T) {
	t.Parallel()
	c := begin(10)
	bare := message.Part{Kind: message.Call, Name: []byte("f"), Value: []byte(`{}`)}
	say(c, message.Assistant, bare, bare)
	for _, words := range []string{"one", "two", "three"} {
		content := text(words)
		content.Inside = true
		say(c, message.Tool, message.Part{Kind: message.Result, Name: []byte("f")}, content)
	}
	calls := history(c)[0].Calls
	if calls[0].Result != result("one") || calls[1].Result != result("two") || c.Strays() {
		t.Errorf("%+v", calls)
	}
}

func TestACallThatIsKnownHasItsResult(t *testing.T) {
	t.Parallel()
	c := begin(10)
	kept := known("a")
	say(c, message.Assistant, message.Part{Kind: message.Call, Known: &kept})
	answer(c, "a", "one", false)
	if got := history(c)[0].Calls[0]; got.Key != kept.Key || got.Result != result("one") {
		t.Errorf("%+v", got)
	}
}

// work adds one round for each word: the arguments of its call.
func work(c *conversation, words ...string) {
	for i, word := range words {
		id := fmt.Sprint(word, i)
		say(c, message.Assistant, message.Part{Kind: message.Call, ID: []byte(id), Name: []byte("f"), Value: fmt.Appendf(nil, `{"x":%q}`, word)})
		answer(c, id, "done", false)
	}
}

func TestTheRoundsSinceTheSameCallsAreIdentified(t *testing.T) {
	t.Parallel()
	since := func(shown int, words ...string) fingerprint.Digest {
		c := begin(10)
		work(c, words...)
		return c.Since(shown)
	}
	edit := since(1, "test", "edit a", "test")
	for name, c := range map[string]struct {
		got  fingerprint.Digest
		want bool // as after an edit
	}{
		"the same edit before":  {since(1, "x", "test", "edit a", "test"), true},
		"another edit":          {since(1, "test", "edit b", "test"), false},
		"an edit that is shown": {since(2, "test", "edit a", "test"), false},
		"no earlier test":       {since(1, "edit a", "test"), false},
		"one round":             {since(1, "test"), false},
		"nothing":               {since(1), false},
	} {
		if (c.got == edit) != c.want {
			t.Errorf("%s: %v", name, c.got)
		}
	}
	c := begin(10)
	work(c, "test")
	say(c, message.User, text("again, please"))
	work(c, "edit a", "test")
	if !c.Since(1).IsZero() {
		t.Error("rounds before a human message count")
	}
	prose := begin(10)
	for _, words := range []string{"Go.", "```bash\ntest\n```", "Output: a", "```bash\nedit\n```", "Output: b", "```bash\ntest\n```", "Output: a"} {
		role := message.User
		if words[0] == '`' {
			role = message.Assistant
		}
		say(prose, role, text(words))
	}
	prose.System = []message.Part{text(fences)}
	if !prose.InText() || prose.Since(1).IsZero() {
		t.Error("rounds in text are not found")
	}
}

func TestToolsAreKnownByTheRequestOrTheHistory(t *testing.T) {
	t.Parallel()
	offered, called, before, prose, none := begin(2), begin(2), begin(1), begin(9), begin(2)
	offered.Tools = [][]byte{[]byte("f")}
	work(called, "x")
	say(before, message.User, text("a"))
	say(before, message.User, text("b"))
	prose.System = []message.Part{text(fences)}
	for i, words := range []string{"Go.", "```bash\nls\n```", "Output: a"} {
		say(prose, []message.Role{message.User, message.Assistant}[i%2], text(words))
	}
	say(none, message.User, text("a"))
	for name, c := range map[string]struct {
		of   *conversation
		want bool
	}{"offered": {offered, true}, "called": {called, true}, "older items": {before, true}, "in text": {prose, true}, "none": {none, false}} {
		if c.of.HasTools() != c.want {
			t.Errorf("%s: want %v", name, c.want)
		}
	}
	offered.Unnamed = true
	work(offered, "x")
	if history(offered)[0].Calls[0].NotOffered {
		t.Error("a tool may be among those without a name")
	}
}

func TestOlderItemsLeaveAChain(t *testing.T) {
	t.Parallel()
	c := begin(2)
	work(c, "a", "b", "c", "d")
	say(c, message.User, text("and?"))
	_, before := c.History(rounds.Rules{})
	other := begin(2)
	work(other, "a", "b", "x", "d")
	say(other, message.User, text("and?"))
	if _, changed := other.History(rounds.Rules{}); before.IsZero() || before == changed {
		t.Error("the chain does not depend on what was left out")
	}
}

func TestTheNewestOfManyTurnsInTextAreKept(t *testing.T) {
	t.Parallel()
	c := begin(4)
	c.System = []message.Part{text(fences)}
	say(c, message.User, text("Go."))
	for i := range 1500 {
		say(c, message.Assistant, text(fmt.Sprintf("```bash\nls %d\n```", i)))
		say(c, message.User, text("Output: a"))
	}
	items := history(c)
	if n := len(items); n < 4 || items[n-1].Calls[0].Key != recognize.TextCall("bash", []byte("ls 1499")) {
		t.Errorf("%d items", n)
	}
}

func TestAUserMessageIsTheResultOfTheNewestRound(t *testing.T) {
	t.Parallel()
	c := begin(2) // the ring is full, so that the newest is not the last
	work(c, "a", "b")
	say(c, message.Assistant, call("x"))
	say(c, message.User, text("Tool result: it ticks"))
	items := history(c)
	if newest := items[len(items)-1]; len(newest.Calls) != 1 || newest.Calls[0].Result.IsZero() {
		t.Errorf("%+v", newest)
	}
}
