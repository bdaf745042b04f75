package rounds_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/unloop/unloop/gateway/internal/text/recognize"
	"github.com/unloop/unloop/gateway/internal/wire/transcript/message"
	"github.com/unloop/unloop/gateway/internal/wire/transcript/rounds"
)

// read returns the call of one round with a result.
func read(rules rounds.Rules, cache *message.Cache, mark message.Part, content ...message.Part) message.ToolCall {
	r := rounds.New(3, &message.Digester{Cache: cache})
	c := &conversation{Rounds: &r}
	say(c, message.Assistant, message.Part{Kind: message.Call, ID: []byte("x"), Name: []byte("search"), Value: []byte(`{"query":"a"}`)})
	mark.Kind, mark.ID = message.Result, []byte("x")
	parts := []message.Part{mark}
	for _, p := range content {
		p.Inside = true
		parts = append(parts, p)
	}
	say(c, message.Tool, parts...)
	items, _ := c.History(rules)
	return items[0].Calls[0]
}

func TestResultsAreRead(t *testing.T) {
	t.Parallel()
	never, err := recognize.NewFailures()
	if err != nil {
		t.Fatal(err)
	}
	long := strings.Repeat("a line of the result\n", 40)
	image := message.Part{Kind: message.Other, Value: []byte(`{"u":1}`)}
	for name, c := range map[string]struct {
		rules                     rounds.Rules
		mark                      message.Part
		content                   []message.Part
		failed, ours, empty, long bool
	}{
		"an acknowledgement":      {content: []message.Part{text("ok")}},
		"a long one":              {content: []message.Part{text(long)}, long: true},
		"an error":                {content: []message.Part{text("Error: no such file")}, failed: true},
		"an error that is none":   {mark: message.Part{Fine: true}, content: []message.Part{text("Error: no such file")}},
		"no error to these rules": {rules: rounds.Rules{Failures: never}, content: []message.Part{text("Error: no such file")}},
		"a marked failure":        {mark: message.Part{Failed: true}, content: []message.Part{text("four apples")}, failed: true},
		"our refusal":             {content: []message.Part{text(`{"error":"recursive_loop_detected"}`)}, failed: true, ours: true, long: true},
		"our hint":                {rules: rounds.Rules{Hints: []string{"", "Take care."}}, content: []message.Part{text("Take care. Now.")}, ours: true},
		"a hint of others":        {rules: rounds.Rules{Hints: []string{"Take care."}}, content: []message.Part{text("Take note.")}},
		"nothing found":           {content: []message.Part{text("No results found.")}, empty: true},
		"nothing but an image":    {content: []message.Part{text("No results found."), image}, long: true},
	} {
		for _, cache := range []*message.Cache{nil, message.NewCache()} {
			got := read(c.rules, cache, c.mark, c.content...)
			if got.Failed != c.failed || got.Ours != c.ours || got.Empty != c.empty || got.Long != c.long || got.Shown != (len(c.content) > 1) || got.Result.IsZero() || got.Class.IsZero() == c.failed {
				t.Errorf("%s: %+v", name, got)
			}
			want := recognize.Loose(got.Tool, []byte(`{"query":"a"}`), got.Failed)
			if got.Shown {
				want = recognize.LooseNumbers(got.Tool, []byte(`{"query":"a"}`))
			}
			if (c.failed || c.long) && got.Loose != want || !c.failed && !c.long && !got.Loose.IsZero() {
				t.Errorf("%s: the loose key is %v", name, got.Loose)
			}
		}
	}
}

func TestOurWordsBehindAResultDoNotChangeIt(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("a line of the result\n", 40)
	plain := read(rounds.Rules{}, nil, message.Part{}, text(long))
	noticed := read(rounds.Rules{}, nil, message.Part{}, text(long+"recursive_loop_detected: The tool was called 3 times."))
	if noticed.Ours || noticed.Result != plain.Result {
		t.Errorf("%+v, %+v", plain, noticed)
	}
	two := read(rounds.Rules{}, nil, message.Part{}, text("a"), text("b"))
	if two.Result != result("a\nb") {
		t.Error("texts are not joined by lines")
	}
}

func TestACacheChangesNoReading(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("a line of the result\n", 100)
	never, err := recognize.NewFailures()
	if err != nil {
		t.Fatal(err)
	}
	cache := message.NewCache()
	for name, rules := range map[string]rounds.Rules{
		"none": {}, "a hint": rounds.Rules{Hints: []string{"Take care."}}.Numbered(), "no failures": rounds.Rules{Failures: never}.Numbered(),
		"not numbered": {Failures: never},
	} {
		for _, words := range []string{long, "Error: " + long, "Take care. " + long, long + "!"} {
			want := read(rules, nil, message.Part{}, text(words))
			for range 2 {
				if diff := cmp.Diff(want, read(rules, cache, message.Part{}, text(words))); diff != "" {
					t.Errorf("%s: %s", name, diff)
				}
			}
		}
	}
}

func TestNoRoundsAreKeptIfNobodyNeedsThem(t *testing.T) {
	t.Parallel()
	c := begin(0)
	work(c, "a")
	say(c, message.User, text("and?"))
	if items := history(c); len(items) != 0 || c.HasTools() {
		t.Errorf("%+v", items)
	}
}

func TestImagesOfHumansAreTheirWords(t *testing.T) {
	t.Parallel()
	human := func(url string) any {
		c := begin(3)
		say(c, message.User, text("look"), message.Part{Kind: message.Other, Value: []byte(`"` + url + `"`)})
		return history(c)[0].Human
	}
	if human("a") == human("b") {
		t.Error("another image is the same message")
	}
}

// A result may come for a call that is far back, beyond what is searched.
func TestTheSearchForACallIsBounded(t *testing.T) {
	t.Parallel()
	c := begin(10)
	say(c, message.Assistant, call("first"))
	for range 3 {
		for i := range 256 {
			c.open = append(c.open, call(strings.Repeat("x", i+1)))
		}
		c.End(message.Assistant)
	}
	answer(c, "first", "late", false)
	if items := history(c); !items[0].Calls[0].Result.IsZero() || c.Strays() {
		t.Error("the call was found, or its result is a stray")
	}
}

func TestTextsBeforeTheAgentAreOneMessage(t *testing.T) {
	t.Parallel()
	c := begin(9)
	c.System = []message.Part{text(fences)}
	for i, words := range []string{"One.", "Two.", "```bash\nls\n```", "Output: a", "more of it"} {
		role := message.User
		if i == 2 {
			role = message.Assistant
		}
		say(c, role, text(words))
	}
	items := history(c)
	if len(items) != 2 || items[0].Human != recognize.Said([]byte("One.\nTwo.")) || items[1].Calls[0].Result != result("a\nmore of it") {
		t.Errorf("%+v", items)
	}
}
