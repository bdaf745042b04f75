package transcript_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/unloop/unloop/gateway/internal/wire/transcript"
	"github.com/unloop/unloop/gateway/internal/wire/transcript/message"
)

// worked is a conversation of n rounds, with a reminder beside each answer from a
// round on.
func worked(n, reminded int) *transcript.Transcript {
	tr := transcript.New(transcript.Options{Items: 10, Exchanges: 4})
	say(tr, message.System, text("You fix things."))
	say(tr, message.User, text("Fix it, please"))
	for i := range n {
		say(tr, message.Assistant, text(fmt.Sprint("Let me look ", i)), call("x"))
		if i >= reminded {
			tr.Add(text("<system-reminder>you have little left</system-reminder>"))
		}
		answer(tr, "x", fmt.Sprint("answer ", i))
	}
	return tr
}

func TestAnExchangeHasTheSameDigestWhereverItIsShown(t *testing.T) {
	t.Parallel()
	before := map[uint64]int{}
	for n := range 20 {
		newest, earlier, _ := worked(n, n).Digests()
		if _, known := before[newest]; known {
			t.Errorf("round %d has the digest of another", n)
		}
		before[newest] = n
		if len(earlier) != min(n, 4) {
			t.Fatalf("round %d: %d exchanges before it, want %d", n, len(earlier), min(n, 4))
		}
		for i, digest := range earlier {
			if was, known := before[digest]; !known || was != n-1-i {
				t.Errorf("round %d: the %d. before it is round %d (%t)", n, i+1, was, known)
			}
		}
	}
	plain, _, _ := worked(3, 3).Digests()
	reminded, _, _ := worked(3, 2).Digests()
	if plain != reminded {
		t.Error("a reminder makes another exchange of it")
	}
	if _, none, _ := transcript.New(transcript.Options{}).Digests(); len(none) > 0 {
		t.Error("digests that nobody asked for")
	}
}

// A conversation that goes on has the name of what was there before, however long it is.
func TestExchangesAreNamedByThoseBefore(t *testing.T) {
	t.Parallel()
	all, before := worked(1, 1).Exchanges()
	if all == 0 || before != 0 {
		t.Errorf("the first exchange: %d, %d", all, before)
	}
	for n := 2; n < 60; n++ {
		next, was := worked(n, n).Exchanges()
		if was != all || next == all {
			t.Fatalf("round %d: %d after %d, was %d", n, next, was, all)
		}
		all = next
	}
	if none, _ := worked(0, 0).Exchanges(); none != 0 {
		t.Error("a prompt alone has exchanges")
	}
	if none, _ := transcript.New(transcript.Options{}).Exchanges(); none != 0 {
		t.Error("names that nobody asked for")
	}
}

func TestEarlierExchangesHaveTheirWords(t *testing.T) {
	t.Parallel()
	type words struct{ said, answered string }
	before := map[uint64]words{}
	for n := range 30 {
		tr := worked(n, n)
		newest, earlier, further := tr.Digests()
		shown := slices.Concat(earlier, further)
		if want := min(n, 8); tr.Earlier() != want || len(shown) != want {
			t.Fatalf("round %d: %d exchanges before it, %d digests, want %d", n, tr.Earlier(), len(shown), want)
		}
		for i, digest := range shown {
			said, answered := tr.EarlierExchange(i, 100)
			if got := (words{said, answered}); got != before[digest] || got == (words{}) {
				t.Errorf("round %d: the %d. before it is %q, was %q", n, i+1, got, before[digest])
			}
		}
		said, answered := tr.Exchange(100)
		before[newest] = words{said, answered}
	}
	if n := transcript.New(transcript.Options{}).Earlier(); n > 0 {
		t.Error("exchanges that nobody asked for")
	}
}

func TestWhatAHumanAnsweredIsToldFromToolResults(t *testing.T) {
	t.Parallel()
	tr := transcript.New(transcript.Options{})
	say(tr, message.User, text("Fix it, please"))
	if got, _ := tr.Human(); string(got) != "Fix it, please" {
		t.Errorf("a human said %q", got)
	}
	if got, _ := worked(1, 1).Human(); len(got) != 0 {
		t.Errorf("a tool's result is taken for a human's words: %q", got)
	}
	tr = worked(1, 1)
	say(tr, message.Assistant, text("Done."))
	say(tr, message.User, text("Look"), text("again"))
	if got, _ := tr.Human(); string(got) != "Look\nagain" {
		t.Errorf("a human said %q", got)
	}
	if _, earlier, _ := tr.Digests(); slices.Contains(earlier, 0) {
		t.Error("a digest is 0, which stands for none")
	}
}
