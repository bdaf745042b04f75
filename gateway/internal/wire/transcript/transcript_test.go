package transcript_test

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/unloop/unloop/gateway/internal/text/recognize"
	"github.com/unloop/unloop/gateway/internal/wire/transcript"
	"github.com/unloop/unloop/gateway/internal/wire/transcript/message"
	"github.com/unloop/unloop/gateway/internal/wire/transcript/rounds"
	"github.com/unloop/unloop/schemas/fingerprint"
)

func text(s string) message.Part {
	return message.Part{Kind: message.Text, Value: []byte(strconv.Quote(s))}
}

func call(id string) message.Part {
	return message.Part{Kind: message.Call, ID: []byte(id), Name: []byte("f"), Value: []byte(`{}`)}
}

func say(t *transcript.Transcript, role message.Role, parts ...message.Part) {
	for _, p := range parts {
		t.Add(p)
	}
	t.End(role)
}

func answer(t *transcript.Transcript, id, words string) {
	t.Add(text(words))
	t.Wrap(0, message.Part{ID: []byte(id)})
	t.End(message.Tool)
}

func TestTheNewestMessagesAreKept(t *testing.T) {
	t.Parallel()
	var c recognize.Hasher
	tr := transcript.New(transcript.Options{Tail: 3})
	for i := range 100 {
		say(tr, message.User, text(fmt.Sprint("message ", i)))
	}
	tail := tr.Tail()
	for i, m := range tail {
		if want := c.Text(fmt.Appendf(nil, "message %d", 97+i)); m.Text != want {
			t.Errorf("message %d of the tail is another", i)
		}
	}
	if len(tail) != 3 || tr.Messages() != 100 {
		t.Errorf("%d of %d messages", len(tail), tr.Messages())
	}
	if none := transcript.New(transcript.Options{}); none.Tail() != nil {
		t.Error("a tail that nobody asked for")
	}
}

func TestACacheFindsTheSame(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("a line of the result\n", 100)
	cache := message.NewCache()
	read := func(o transcript.Options, rules rounds.Rules) ([]rounds.Item, fingerprint.Digest) {
		o.Items = 10
		tr := transcript.New(o)
		say(tr, message.System, text(strings.Repeat("You are careful. ", 100)))
		say(tr, message.User, text("go"))
		for i, words := range []string{long, "Error: " + long, "Take care. " + long, long + "!"} {
			say(tr, message.Assistant, call(fmt.Sprint(i)))
			answer(tr, fmt.Sprint(i), words)
		}
		items, _ := tr.History(rules)
		return items, tr.Opening()
	}
	never, err := recognize.NewFailures()
	if err != nil {
		t.Fatal(err)
	}
	for name, rules := range map[string]rounds.Rules{
		"none": {}, "a hint": rounds.Rules{Hints: []string{"Take care."}}.Numbered(), "no failures": rounds.Rules{Failures: never}.Numbered(),
		"not numbered": {Failures: never},
	} {
		want, wantOpening := read(transcript.Options{}, rules)
		for range 2 {
			got, opening := read(transcript.Options{Cache: cache}, rules)
			if diff := cmp.Diff(want, got); diff != "" || opening != wantOpening {
				t.Errorf("%s: %s", name, diff)
			}
		}
	}
}

func TestTheEndOfAnExchangeIsWholeCharacters(t *testing.T) {
	t.Parallel()
	tr := transcript.New(transcript.Options{})
	say(tr, message.Assistant, text("äöü"))
	if said, _ := tr.Exchange(3); said != "ü" {
		t.Errorf("%q", said)
	}
	for range 2000 {
		say(tr, message.Tool, text("x"))
	}
	if _, answered := tr.Exchange(1 << 20); len(answered) > 2*512 {
		t.Errorf("%d bytes of answers are kept", len(answered))
	}
}

func TestAScratchpadThatGrowsIsOneConversation(t *testing.T) {
	t.Parallel()
	const step = "Thought: a\nAction: find\nAction Input: x\nObservation: none\n"
	two, three := transcript.New(transcript.Options{}), transcript.New(transcript.Options{})
	say(two, message.User, text("Question: how tall?\n"+step+step+"Thought:"))
	say(three, message.User, text("Question: how tall?\n"+step+step+step+"Thought:"))
	if two.Opening() != three.Opening() {
		t.Error("each step is a new conversation")
	}
}
