package transcript_test

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/unloop/unloop/gateway/internal/provider/transcript"
	"github.com/unloop/unloop/gateway/internal/recognize"
	"github.com/unloop/unloop/schemas/fingerprint"
)

func text(s string) transcript.Part {
	return transcript.Part{Kind: transcript.Text, Value: []byte(strconv.Quote(s))}
}

func call(id string) transcript.Part {
	return transcript.Part{Kind: transcript.Call, ID: []byte(id), Name: []byte("f"), Value: []byte(`{}`)}
}

func say(t *transcript.Transcript, role transcript.Role, parts ...transcript.Part) {
	for _, p := range parts {
		t.Add(p)
	}
	t.End(role)
}

func answer(t *transcript.Transcript, id, words string, pending bool) {
	t.Add(text(words))
	t.Wrap(0, transcript.Part{ID: []byte(id), Pending: pending})
	t.End(transcript.Tool)
}

func result(words string) fingerprint.Digest { return recognize.Result([]byte(words), nil) }

func history(t *transcript.Transcript) []transcript.Item {
	items, _ := t.History(transcript.Rules{})
	return items
}

func TestTheNewestMessagesAreKept(t *testing.T) {
	t.Parallel()
	var c recognize.Hasher
	tr := transcript.New(transcript.Options{Tail: 3})
	for i := range 100 {
		say(tr, transcript.User, text(fmt.Sprint("message ", i)))
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

func TestAnIdThatIsUsedAgainIsAnotherCall(t *testing.T) {
	t.Parallel()
	tr := transcript.New(transcript.Options{Items: 10})
	for i := range 3 {
		say(tr, transcript.Assistant, call("x"))
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
	tr := transcript.New(transcript.Options{Items: 10})
	say(tr, transcript.Assistant, call("x"))
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
	tr := transcript.New(transcript.Options{Items: 10})
	say(tr, transcript.Assistant, call("x"))
	say(tr, transcript.User, text("never mind"))
	say(tr, transcript.Assistant, call("y"))
	answer(tr, "x", "late", false)
	items := history(tr)
	if len(items) != 3 || items[0].Calls[0].Result != result("late") || !items[2].Calls[0].Result.IsZero() {
		t.Errorf("%+v", items)
	}
}

func TestEqualCallsAreToldApartByWhatIsAroundThem(t *testing.T) {
	t.Parallel()
	tr := transcript.New(transcript.Options{Items: 10})
	bare := call("")
	marked := bare
	marked.Mark = []byte("sig")
	say(tr, transcript.Assistant, bare)
	say(tr, transcript.Assistant, text("again"), bare)
	say(tr, transcript.Assistant, marked)
	say(tr, transcript.Assistant, call("x"))
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
	tr := transcript.New(transcript.Options{Items: 2})
	for range 3 {
		for i := range 10_000 {
			tr.Add(call(fmt.Sprint(i)))
		}
		tr.End(transcript.Assistant)
	}
	if items := history(tr); len(items) != 2 || len(items[1].Calls) != 256 {
		t.Errorf("%d items", len(items))
	}
}

func TestACacheFindsTheSame(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("a line of the result\n", 100)
	cache := transcript.NewCache()
	read := func(o transcript.Options, rules transcript.Rules) ([]transcript.Item, fingerprint.Digest) {
		o.Items = 10
		tr := transcript.New(o)
		say(tr, transcript.System, text(strings.Repeat("You are careful. ", 100)))
		say(tr, transcript.User, text("go"))
		for i, words := range []string{long, "Error: " + long, "Take care. " + long, long + "!"} {
			say(tr, transcript.Assistant, call(fmt.Sprint(i)))
			answer(tr, fmt.Sprint(i), words, false)
		}
		items, _ := tr.History(rules)
		return items, tr.Opening()
	}
	never, err := recognize.NewFailures()
	if err != nil {
		t.Fatal(err)
	}
	for name, rules := range map[string]transcript.Rules{
		"none": {}, "a hint": transcript.Rules{Hints: []string{"Take care."}}.Numbered(), "no failures": transcript.Rules{Failures: never}.Numbered(),
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

func TestAFullCacheForgetsTheOldest(t *testing.T) {
	t.Parallel()
	cache := transcript.NewCache()
	for i := range 20_000 {
		tr := transcript.New(transcript.Options{Cache: cache})
		say(tr, transcript.System, text(fmt.Sprint(i, strings.Repeat("x", 600))))
		if tr.Opening().IsZero() {
			t.Fatal("no opening")
		}
	}
	if n := cache.Len(); n > 2*16_384 || n < 16_384 {
		t.Errorf("%d entries are kept", n)
	}
}

func TestTheEndOfAnExchangeIsWholeCharacters(t *testing.T) {
	t.Parallel()
	tr := transcript.New(transcript.Options{})
	say(tr, transcript.Assistant, text("äöü"))
	if said, _ := tr.Exchange(3); said != "ü" {
		t.Errorf("%q", said)
	}
	for range 2000 {
		say(tr, transcript.Tool, text("x"))
	}
	if _, answered := tr.Exchange(1 << 20); len(answered) > 2*512 {
		t.Errorf("%d bytes of answers are kept", len(answered))
	}
}
