package transcript_test

import (
	"fmt"
	"testing"

	"github.com/unloop/unloop/gateway/internal/wire/transcript"
	"github.com/unloop/unloop/gateway/internal/wire/transcript/message"
)

func TestComplaintsAreCounted(t *testing.T) {
	t.Parallel()
	const complaint = "No tool call was found in your reply."
	for name, c := range map[string]struct {
		turns []string // of the user and the agent by turns; "a call" has its result behind it
		want  int
	}{
		"a first message":           {[]string{"task"}, 0},
		"one":                       {[]string{"task", "Done.", complaint}, 1},
		"three":                     {[]string{"task", "Done.", complaint, "It is done.", complaint, "Really.", complaint}, 3},
		"attempts":                  {[]string{"task", "a", "Attempt 1: no tool call.", "b", "Attempt 2: no tool call."}, 2},
		"another complaint before":  {[]string{"task", "a", "Invalid format.", "b", complaint, "c", complaint}, 2},
		"work in between":           {[]string{"task", "a", complaint, "a call", complaint, "b", complaint}, 1},
		"a complaint behind a call": {[]string{"task", "a call", complaint}, 0},
		"the model's turn":          {[]string{"task", "a", complaint, "b"}, 0},
		"continue":                  {[]string{"task", "one", "continue", "two", "continue", "three", "continue"}, 0},
		"the complaint as the task": {[]string{complaint, "a", complaint, "b", complaint}, 2},
	} {
		tr := transcript.New(transcript.Options{Tail: 3, Items: 48})
		for i, words := range c.turns {
			switch {
			case i%2 == 0:
				say(tr, message.User, text(words))
			case words == "a call":
				say(tr, message.Assistant, call(fmt.Sprint(i)))
				answer(tr, fmt.Sprint(i), "a.go")
			default:
				say(tr, message.Assistant, text(words))
			}
		}
		if got := tr.Complaints(); got != c.want {
			t.Errorf("%s: %d, want %d", name, got, c.want)
		}
	}
}
