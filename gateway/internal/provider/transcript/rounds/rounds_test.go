package rounds_test

import (
	"fmt"
	"strconv"
	"testing"

	"github.com/unloop/unloop/gateway/internal/provider/transcript/message"
	"github.com/unloop/unloop/gateway/internal/provider/transcript/rounds"
	"github.com/unloop/unloop/gateway/internal/recognize"
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
	if items := history(tr); len(items) != 2 || len(items[1].Calls) != 256 {
		t.Errorf("%d items", len(items))
	}
}
