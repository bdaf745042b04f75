package rounds_test

import (
	"testing"

	"github.com/unloop/unloop/gateway/internal/wire/transcript/message"
)

// closed writes a history as H for messages of a human and R for rounds, each with a dot
// where it ends a turn.
func closed(c *conversation) (out string) {
	for _, it := range history(c) {
		kind := "R"
		if len(it.Calls) == 0 {
			kind = "H"
		}
		if it.Closed {
			kind += "."
		}
		out += kind
	}
	return out
}

const stopped = "Stopped by Unloop: the same tool call 5 times (recursive_loop_detected)."

func TestAFinishedAnswerEndsATurn(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		play func(c *conversation)
		want string
	}{
		"an answer": {func(c *conversation) {
			say(c, message.User, text("check the mail"))
			say(c, message.Assistant, call("a"))
			answer(c, "a", "[]", false)
			say(c, message.Assistant, text("No mail."))
			say(c, message.User, text("check the mail"))
		}, "HRH."},
		"an answer without work": {func(c *conversation) {
			for range 2 {
				say(c, message.User, text("continue"))
				say(c, message.Assistant, text("Done."))
			}
			say(c, message.User, text("continue"))
			say(c, message.Assistant, call("a"))
		}, "HH.H.R"},
		"a message behind results": {func(c *conversation) {
			say(c, message.Assistant, text("I look."), call("a"))
			answer(c, "a", "[]", false)
			say(c, message.User, text("hurry"))
		}, "RH"},
		"words between a call and its result": {func(c *conversation) {
			say(c, message.Assistant, call("a"))
			say(c, message.Assistant, text("I look."))
			answer(c, "a", "[]", false)
			say(c, message.User, text("hurry"))
		}, "RH"},
		"words before a call": {func(c *conversation) {
			say(c, message.Assistant, text("I look."))
			say(c, message.Assistant, call("a"))
			say(c, message.User, text("no, stop"))
		}, "RH"},
		"two messages": {func(c *conversation) {
			say(c, message.Assistant, call("a"))
			answer(c, "a", "[]", false)
			say(c, message.Assistant, text("Done."))
			say(c, message.User, text("well"))
			say(c, message.User, text("once more"))
		}, "RH.H"},
		"the gateway's answer": {func(c *conversation) {
			say(c, message.Assistant, call("a"))
			answer(c, "a", "[]", false)
			say(c, message.Assistant, text(stopped))
			say(c, message.User, text("go on"))
		}, "RH"},
		"an empty answer": {func(c *conversation) {
			say(c, message.Assistant, call("a"))
			answer(c, "a", "[]", false)
			say(c, message.Assistant, text(""))
			say(c, message.User, text("go on"))
		}, "RH"},
	} {
		tr := begin(20)
		if c.play(tr); closed(tr) != c.want {
			t.Errorf("%s: %s, want %s", name, closed(tr), c.want)
		}
	}
}

func TestAnAnswerWithoutAnActionEndsATurn(t *testing.T) {
	t.Parallel()
	const action = "```bash\nls\n```"
	for name, c := range map[string]struct {
		texts []string
		want  string
	}{
		"an answer":            {[]string{"task", action, "Output: a", "All is well.", "again", action, "Output: a"}, "HRH.R"},
		"a complaint":          {[]string{"task", action, "Output: a", "Well.", "No action.", "Well.", "No action."}, "HRH.R."},
		"the gateway's answer": {[]string{"task", action, "Output: a", stopped, "go on"}, "HRH"},
	} {
		if got := closed(talk(fences, c.texts...)); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}
