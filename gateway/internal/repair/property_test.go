package repair_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/unloop/unloop/gateway/internal/provider/anthropic"
	"github.com/unloop/unloop/gateway/internal/provider/chat"
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
	return h
}

func TestMendedHistoriesAreSound(t *testing.T) {
	t.Parallel()
	for seed := range uint64(10_000) {
		h := random(rand.New(rand.NewPCG(seed, 1)))
		a := mended(t, anthropic.Messages{}, asAnthropic(h))
		c := mended(t, chat.Chat{}, asChat(h))
		if diff := cmp.Diff(a, c); diff != "" {
			t.Errorf("the formats disagree: %s", diff)
		}
		sound(t, a)
		if t.Failed() {
			t.Fatalf("seed %d:\n%s", seed, strings.Join(h, "\n"))
		}
	}
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

// sound checks that the results behind each call are its own, and that a human
// begins, if one is there.
func sound(t *testing.T, events []string) {
	t.Helper()
	open := map[string]int{}
	human := -1
	for i, e := range events {
		id, _, isResult := strings.Cut(e, "=")
		call, isCall := strings.CutPrefix(e, "call ")
		switch {
		case isCall:
			open[call]++
		case isResult:
			if open[id] != 1 {
				t.Errorf("result %s without an open call", e)
			}
			open[id]--
		default:
			for call, n := range open {
				if n != 0 {
					t.Errorf("%s stands before the result of %s", e, call)
				}
			}
			if e[0] == 'U' && human < 0 {
				human = i
			}
		}
	}
	for call, n := range open {
		if n != 0 {
			t.Errorf("call %s has no result", call)
		}
	}
	if human > 0 {
		t.Errorf("%q stands before the first human message", events[:human])
	}
}
