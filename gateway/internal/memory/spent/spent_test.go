package spent

import (
	"testing"
	"time"

	"github.com/unloop/unloop/gateway/internal/wire/usage"
)

var noon = time.Date(2026, 5, 22, 12, 0, 0, 0, time.UTC)

func TestTheCostOfARequestFollowsTheNewestAnswer(t *testing.T) {
	t.Parallel()
	b := New()
	if got, want := b.Expect("c", "m", 100), (usage.Usage{Input: 100}); got != want {
		t.Errorf("without an answer: %+v, want %+v", got, want)
	}
	b.Keep("c", "m", 200, usage.Usage{Input: 300, Cached: 150, Output: 40})
	for _, c := range []struct {
		caller, model string
		estimate      int
		want          usage.Usage
	}{
		{"c", "m", 100, usage.Usage{Input: 150, Cached: 75, Output: 40}},
		{"c", "other", 100, usage.Usage{Input: 100}},
		{"d", "m", 100, usage.Usage{Input: 100}},
		{"c", "m", 0, usage.Usage{Output: 40}},
	} {
		if got := b.Expect(c.caller, c.model, c.estimate); got != c.want {
			t.Errorf("%+v: %+v", c, got)
		}
	}
	b.Keep("c", "m", 200, usage.Usage{}) // an answer without usage
	b.Keep("c", "m", 0, usage.Usage{Input: 9})
	if got := b.Expect("c", "m", 200); got.Input != 300 {
		t.Errorf("after an answer that says nothing: %+v", got)
	}
}

func TestFewAnswersAreRead(t *testing.T) {
	t.Parallel()
	b := New()
	read := 0
	for i := range 100 {
		if b.Wants("c", "m", noon.Add(time.Duration(i)*100*time.Millisecond)) {
			read++
		}
	}
	if read != 10 {
		t.Errorf("%d of 100 answers in 10 seconds are read, want 10", read)
	}
	b.Keep("c", "m", 1, usage.Usage{Input: 1})
	if b.Wants("c", "m", noon.Add(9100*time.Millisecond)) {
		t.Error("an answer is read just after another one")
	}
	if b.Wants("", "m", noon) || b.Wants("c", "", noon) || !b.Wants("d", "m", noon) {
		t.Error("an answer to nobody is read, or none to another caller")
	}
}
