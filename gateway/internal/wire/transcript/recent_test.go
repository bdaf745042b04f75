package transcript_test

import (
	"fmt"
	"testing"

	"github.com/unloop/unloop/gateway/internal/wire/transcript"
	"github.com/unloop/unloop/gateway/internal/wire/transcript/message"
	"github.com/unloop/unloop/gateway/internal/wire/transcript/rounds"
	"github.com/unloop/unloop/schemas/fingerprint"
)

// told is a conversation that is written as "u words", "a words", "c id", "r id" and
// "s words": of the user and agent, a call, its result, and the system.
func told(lines ...string) *transcript.Transcript {
	tr := transcript.New(transcript.Options{Tail: 3, Items: 20})
	for _, line := range lines {
		words := line[2:]
		switch line[0] {
		case 'u':
			say(tr, message.User, text(words))
		case 'a':
			say(tr, message.Assistant, text(words))
		case 's':
			say(tr, message.System, text(words))
		case 'c':
			say(tr, message.Assistant, message.Part{Kind: message.Call, ID: []byte(words), Name: []byte("f"), Value: fmt.Appendf(nil, "%q", words)})
		case 'r':
			answer(tr, words, "result of "+words)
		}
	}
	return tr
}

func TestRoundsAtTheEndAreCounted(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		lines []string
		want  int
	}{
		"none":                    {nil, 0},
		"a prompt":                {[]string{"u go"}, 0},
		"words of the model":      {[]string{"u go", "a done"}, 0},
		"one":                     {[]string{"u go", "c x", "r x"}, 1},
		"three":                   {[]string{"u go", "c x", "r x", "c x", "r x", "c x", "r x"}, 3},
		"another in between":      {[]string{"u go", "c x", "r x", "c y", "r y", "c x", "r x"}, 1},
		"words and a human again": {[]string{"u go", "a what?", "u go", "a what?", "u go"}, 2},
	} {
		if got := told(c.lines...).Rounds(); got != c.want {
			t.Errorf("%s: %d, want %d", name, got, c.want)
		}
	}
}

func TestTheNewestMessagesHaveTheTurnThatTheyAnswer(t *testing.T) {
	t.Parallel()
	recent := func(n int, lines ...string) fingerprint.Digest { return told(lines...).Recent(n) }
	for name, c := range map[string]struct {
		a, b []string
		n    int
		same bool
	}{
		"what came before":               {[]string{"u one", "a x", "u go"}, []string{"u two", "a y", "u go"}, 1, true},
		"another newest message":         {[]string{"u one", "u go"}, []string{"u one", "u stop"}, 1, false},
		"the call of a result":           {[]string{"c x", "r x"}, []string{"c y", "r x"}, 1, false},
		"words before the call":          {[]string{"u go", "a first", "c x", "r x"}, []string{"u go", "a other", "c x", "r x"}, 1, false},
		"a turn before":                  {[]string{"c a", "r a", "c x", "r x"}, []string{"c b", "r b", "c x", "r x"}, 1, true},
		"an edit between the same calls": {[]string{"c x", "r x", "c a", "r a", "c x", "r x"}, []string{"c x", "r x", "c b", "r b", "c x", "r x"}, 1, false},
		"a stray result":                 {[]string{"r x"}, []string{"r y"}, 1, false},
	} {
		if a, b := recent(c.n, c.a...), recent(c.n, c.b...); (a == b) != c.same {
			t.Errorf("%s: same is %v", name, a == b)
		}
	}
	if !recent(1).IsZero() {
		t.Error("no messages have a digest")
	}
}

func TestATurnOfVeryManyCallsIsKnownByItsWords(t *testing.T) {
	t.Parallel()
	many := func(words string) fingerprint.Digest {
		tr := transcript.New(transcript.Options{Tail: 3, Items: 20})
		tr.Add(text(words))
		for i := range 50 {
			tr.Add(call(fmt.Sprint(i)))
		}
		tr.End(message.Assistant)
		for i := range 50 {
			answer(tr, fmt.Sprint(i), "done")
		}
		return tr.Recent(1)
	}
	if many("one") == many("other") {
		t.Error("the turn is lost behind its results")
	}
}

func TestAnswersToActionsInTextBelongToThem(t *testing.T) {
	t.Parallel()
	const prose = "s Answer with one command:\n```bash\ncommand\n```"
	act := func(first string) *transcript.Transcript {
		return told(prose, "u Go.", "a ```bash\n"+first+"\n```", "u Output: a")
	}
	if act("ls").Recent(1) == act("cat").Recent(1) {
		t.Error("the action before an answer makes no difference")
	}
	if !act("ls").HasTools() || len(historyOf(act("ls"))) != 2 {
		t.Error("the action is no round")
	}
}

func historyOf(tr *transcript.Transcript) []rounds.Item {
	items, _ := tr.History(rounds.Rules{})
	return items
}

func TestABeginningIsItsInstructionsAndFirstWords(t *testing.T) {
	t.Parallel()
	base := told("s You fix. Now: 2026-05-22T14:30:00Z", "u Fix it.")
	image := told("s You fix. Now: 2026-05-22T14:30:00Z")
	say(image, message.User, text("Fix it."), message.Part{Kind: message.Other, Value: []byte(`{"u":1}`)})
	for name, c := range map[string]struct {
		tr         *transcript.Transcript
		same, text bool
	}{
		"later messages":   {told("s You fix. Now: 2026-05-22T14:30:00Z", "u Fix it.", "a so"), true, true},
		"another clock":    {told("s You fix. Now: 2026-05-22T15:31:07Z", "u Fix it."), true, true},
		"other words":      {told("s You fix. Now: 2026-05-22T14:30:00Z", "u Break it."), false, false},
		"another system":   {told("s You plan.", "u Fix it."), false, false},
		"an image":         {image, false, false},
		"a system further": {told("s You fix. Now: 2026-05-22T14:30:00Z", "s Be kind.", "u Fix it."), false, false},
	} {
		if (c.tr.Beginning() == base.Beginning()) != c.same || (c.tr.BeginningText(0) == base.BeginningText(0)) != c.text {
			t.Errorf("%s: want %v, %v", name, c.same, c.text)
		}
	}
	if base.BeginningText(2) != told("s You fix. Now: 2026-05-22T14:30:00Z", "u Break it.").BeginningText(2) {
		t.Error("the first words count though they are among the newest")
	}
	if !base.Begins() || told("u a", "a b").Begins() {
		t.Error("whether the model has spoken is not known")
	}
	if told().Opening() != (fingerprint.Digest{}) || base.Opening().IsZero() {
		t.Error("an opening out of nothing")
	}
}

func TestInstructionsBesideTheMessagesCount(t *testing.T) {
	t.Parallel()
	beside := func(words string, lines ...string) *transcript.Transcript {
		tr := told(lines...)
		tr.Add(text(words))
		tr.EndSystem()
		return tr
	}
	a, b := beside("You fix.", "u go"), beside("You plan.", "u go")
	if a.Agent() == b.Agent() || a.Opening() == b.Opening() || beside("You fix.", "s too", "u go").Agent() == a.Agent() {
		t.Error("instructions make no difference")
	}
	if len(a.Tail()) != 2 || len(beside("x", "u 1", "u 2", "u 3").Tail()) != 3 {
		t.Error("the instructions stand before the first message alone")
	}
}

func TestOpenMessagesAreEdited(t *testing.T) {
	t.Parallel()
	tr := transcript.New(transcript.Options{Items: 5, Tail: 1})
	tr.Add(text("a"))
	tr.At(tr.Add(call("x"))).Name = []byte("g")
	tr.Insert(0, text("b"))
	tr.Remove(func(p message.Part) bool { return string(p.Value) == `"a"` })
	tr.Add(text("c"))
	tr.Cut(tr.Len() - 1)
	tr.Offer(nil)
	tr.Offer([]byte("g"))
	tr.OfferUnnamed()
	answered := tr.Len()
	tr.Add(text("d"))
	tr.Wrap(answered, message.Part{ID: []byte("x")})
	tr.EndBefore(answered, message.Assistant)
	tr.End(message.Tool)
	items := historyOf(tr)
	if len(items) != 1 || items[0].Calls[0].Tool != "g" || items[0].Calls[0].Result.IsZero() || tr.Messages() != 2 || !tr.HasTools() {
		t.Errorf("%+v", items)
	}
	if said, brought := tr.Exchange(100); said != "b\ng {}" || brought != "d" {
		t.Errorf("%q, %q", said, brought)
	}
}

func TestADiscardedTranscriptKeepsNothing(t *testing.T) {
	t.Parallel()
	tr := transcript.Discard()
	tr.Add(text("You fix."))
	tr.EndSystem()
	say(tr, message.User, text("go"))
	if tr.Len() != 0 || tr.Messages() != 1 || !tr.Opening().IsZero() || len(historyOf(tr)) != 0 {
		t.Error("something is kept")
	}
}

func TestCallsThatTheServerKeepsAreShown(t *testing.T) {
	t.Parallel()
	kept := message.ToolCall{Tool: "look", Key: fingerprint.String([]byte("k")), ID: message.CallID([]byte("x"))}
	tr := told("r x")
	if !tr.Strays() {
		t.Fatal("no strays")
	}
	before := tr.Recent(1)
	if with, open := tr.Precede([]message.ToolCall{kept}); len(open) != 0 || with.Recent(1) == before || tr.Recent(1) != before {
		t.Errorf("%d are open", len(open))
	}
	shown := transcript.New(transcript.Options{})
	say(shown, message.Assistant, message.Part{Kind: message.Call, Known: &kept})
	if said, _ := shown.Exchange(100); said != "look" {
		t.Errorf("%q", said)
	}
}

func TestASummaryIsNoHumansOpening(t *testing.T) {
	t.Parallel()
	if !told("u This session is being continued from a previous conversation that ran out of context.").Compacted() || told("u hi").Compacted() {
		t.Error("a summary is not known")
	}
}

func TestWordsInTheModelsPlaceAreNoneOfTheAgents(t *testing.T) {
	t.Parallel()
	tr := transcript.New(transcript.Options{})
	const ours = "Stopped by Unloop: the same prompt 6 times (recursive_loop_detected)."
	say(tr, message.Assistant, text("I look."))
	for _, words := range []string{ours, "recursive_loop_detected: as an older gateway says it"} {
		say(tr, message.Assistant, text(words))
		if said, _ := tr.Exchange(100); said != "I look." {
			t.Errorf("%q", said)
		}
	}
	for _, words := range []string{"Stopped by Unloop: so it says.", "It says: " + ours} {
		own := transcript.New(transcript.Options{})
		say(own, message.Assistant, text(words))
		if said, _ := own.Exchange(100); said != words {
			t.Errorf("%q of the model's own is dropped: %q", words, said)
		}
	}
	say(tr, message.Assistant, text(ours), call("x"))
	if said, _ := tr.Exchange(100); said != "f {}" {
		t.Errorf("%q", said)
	}
	if got, _ := tr.Human(); len(got) > 0 {
		t.Errorf("%q", got)
	}
}
