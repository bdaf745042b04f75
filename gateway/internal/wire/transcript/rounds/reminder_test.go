package rounds_test

import (
	"fmt"
	"testing"

	"github.com/unloop/unloop/gateway/internal/wire/transcript/message"
)

// working is a session of rounds in which the user says something after each round.
func working(n int, after func(i int) string) *conversation {
	tr := begin(48)
	say(tr, message.User, text("Mend the clock."))
	for i := range n {
		say(tr, message.Assistant, call(fmt.Sprint(i)))
		answer(tr, fmt.Sprint(i), "ticks", false)
		if words := after(i); words != "" {
			say(tr, message.User, text(words))
		}
	}
	return tr
}

// humans are the messages of a history that start afresh: those of humans which
// were not sent before.
func humans(tr *conversation) (n int) {
	seen := map[any]bool{}
	for _, it := range history(tr) {
		if len(it.Calls) == 0 && !it.Summary && !seen[it.Human] {
			n++
		}
		seen[it.Human] = true
	}
	return n
}

func TestRemindersAreNoNewHumanMessages(t *testing.T) {
	t.Parallel()
	nags := []string{"Go on.", "Do continue.", "Keep going!", "Please proceed.", "And on.", "More, please.", "Further.", "Next."}
	for name, c := range map[string]struct {
		after func(i int) string
		want  int
	}{
		"nothing":            {func(int) string { return "" }, 1},
		"a countdown":        {func(i int) string { return fmt.Sprintf("You have %d steps left.", 12-i) }, 2},
		"other words":        {func(i int) string { return nags[i] }, 3},
		"a human now and so": {func(i int) string { return map[int]string{2: "Use the key.", 6: "Mind the spring."}[i] }, 3},
	} {
		if got := humans(working(8, c.after)); got != c.want {
			t.Errorf("%s: %d messages start afresh, want %d", name, got, c.want)
		}
	}
}

func TestAnswersToWhatTheAgentSaysAreHuman(t *testing.T) {
	t.Parallel()
	tr := begin(48)
	for i := range 6 {
		say(tr, message.User, text("Clock "+string(rune('a'+i))))
		say(tr, message.Assistant, call(fmt.Sprint(i)))
		answer(tr, fmt.Sprint(i), "ticks", false)
		say(tr, message.Assistant, text("It ticks."))
	}
	if got := humans(tr); got != 6 {
		t.Errorf("%d messages start afresh, want 6", got)
	}
}

func TestResultsThatComeAsUserMessagesAreResults(t *testing.T) {
	t.Parallel()
	tr := begin(48)
	say(tr, message.User, text("Mend the clock."))
	for i := range 3 {
		say(tr, message.Assistant, call(fmt.Sprint(i)))
		say(tr, message.User, text("Tool result: it ticks"))
	}
	say(tr, message.Assistant, call("x"))
	say(tr, message.User, text("Never mind."))
	if got := shape(tr); got != "H f(0)1 f(0)1 f(0)1 f(0)2 H" {
		t.Errorf("history %s", got)
	}
}
