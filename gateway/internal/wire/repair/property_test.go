package repair_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/unloop/unloop/gateway/internal/wire/provider/anthropic"
	"github.com/unloop/unloop/gateway/internal/wire/provider/chat"
)

// random is a history of anything.
func random(r *rand.Rand) (h history) {
	pick := func(words ...string) string { return words[r.IntN(len(words))] }
	for range r.IntN(12) {
		line := pick("U", "A")
		ids := r.Perm(3)
		for range r.IntN(4) {
			id := fmt.Sprint("c", r.IntN(3))
			switch word := pick("text", "call", "result", "result"); {
			case word == "text":
				line += " " + pick("a", "b", "")
			case word == "result":
				line += " " + id + "=" + pick("1", "2", "pending")
			case line[0] == 'A' && len(ids) > 0: // a message has no id twice
				line += fmt.Sprint(" c", ids[0], "()")
				ids = ids[1:]
			}
		}
		if line == "U" || line == "A" {
			line += " "
		}
		h = append(h, line)
	}
	if !strings.ContainsAny(strings.Join(h, " "), "ab(") { // nothing would be left
		h = append(h, "U a")
	}
	return h
}

func TestMendedHistoriesAreSound(t *testing.T) {
	t.Parallel()
	for seed := range uint64(4_000) {
		h := random(rand.New(rand.NewPCG(seed, 1)))
		a := mended(t, anthropic.Messages{}, asAnthropic(h))
		c := mended(t, chat.Chat{}, asChat(h))
		if diff := cmp.Diff(withoutResults(a), withoutResults(c)); diff != "" {
			t.Errorf("the formats disagree: %s", diff)
		}
		sound(t, a, "U")
		sound(t, c, "UA")
		if t.Failed() {
			t.Fatalf("seed %d:\n%s", seed, strings.Join(h, "\n"))
		}
	}
}

// withoutResults are the words and calls among events: where one format joins
// messages, another has each followed by its results.
func withoutResults(events []string) (words []string) {
	for _, e := range events {
		if id, _, isResult := strings.Cut(e, "="); !isResult || strings.Contains(id, " ") {
			words = append(words, strings.Fields(e)...)
		}
	}
	words = slices.DeleteFunc(words, func(w string) bool { return w == "U" || w == "A" })
	slices.Sort(words)
	return words
}

// mended repairs a body and checks that there is nothing left to repair.
func mended(t *testing.T, f repairer, body []byte) []string {
	t.Helper()
	once, report, err := f.Repair(body)
	if err != nil {
		t.Fatal(err)
	}
	if !report.Changed() && &once[0] != &body[0] {
		t.Error("changed without a reason")
	}
	twice, again, err := f.Repair(once)
	if err != nil || again.Changed() || !bytes.Equal(once, twice) {
		t.Errorf("a second repair: %v, %v\n%s\n%s", again, err, once, twice)
	}
	return events(t, once)
}

// sound checks that the results behind each call are its own, and that who comes next
// speaks after them: where messages are joined, the model may go on before.
func sound(t *testing.T, events []string, next string) {
	t.Helper()
	open := map[string]int{}
	for _, e := range events {
		id, _, isResult := strings.Cut(e, "=")
		call, isCall := strings.CutPrefix(e, "call ")
		switch {
		case isCall:
			open[call]++
		case isResult:
			if open[id] < 1 {
				t.Errorf("result %s without an open call", e)
			}
			open[id]--
		case strings.Contains(next, e[:1]):
			for call, n := range open {
				if n != 0 {
					t.Errorf("%s stands before the result of %s", e, call)
				}
			}
		}
	}
	for call, n := range open {
		if n != 0 {
			t.Errorf("call %s has no result", call)
		}
	}
}

// A history that was mended once is mended in the same way when it goes on, so that
// what the provider cached of it holds.
func TestMendedHistoriesBeginAsBefore(t *testing.T) {
	t.Parallel()
	for seed := range uint64(2_000) {
		h := random(rand.New(rand.NewPCG(seed, 2)))
		longer := append(slices.Clone(h), "U and", "A n()", "U n=1", "A so")
		for name, f := range map[string]struct {
			repairer
			write func(history) []byte
		}{"anthropic": {anthropic.Messages{}, asAnthropic}, "chat": {chat.Chat{}, asChat}} {
			before, after := mended(t, f, f.write(append(slices.Clone(h), "U and"))), mended(t, f, f.write(longer))
			if len(after) < len(before) || !slices.Equal(before, after[:len(before)]) {
				t.Fatalf("%s, seed %d:\n%s\n%q\n%q", name, seed, strings.Join(h, "\n"), before, after)
			}
		}
	}
}
