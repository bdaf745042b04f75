package rounds_test

import (
	"strings"
	"testing"

	"github.com/unloop/unloop/gateway/internal/text/recognize"
	"github.com/unloop/unloop/gateway/internal/wire/transcript/message"
	"github.com/unloop/unloop/gateway/internal/wire/transcript/rounds"
	"github.com/unloop/unloop/schemas/fingerprint"
)

// made are the items of a history in words: "H" for a human message, else calls with
// their results, joined by + where they are of one round. A ! marks a failed call, a
// ? a poll.
func made(words string) (items []rounds.Item) {
	for word := range strings.FieldsSeq(words) {
		if word[0] == 'H' {
			items = append(items, rounds.Item{Human: fingerprint.String([]byte(word))})
			continue
		}
		var it rounds.Item
		for c := range strings.SplitSeq(word, "+") {
			name, result, done := strings.Cut(c, ":")
			call := message.ToolCall{Key: fingerprint.String([]byte(name)), Failed: strings.HasSuffix(name, "!"), Poll: strings.HasSuffix(name, "?")}
			if done {
				call.Result = recognize.Result([]byte(result), nil)
			}
			it.Calls = append(it.Calls, call)
		}
		items = append(items, it)
	}
	return items
}

func TestTheSameCallAfterOtherWorkIsKnownToTheToolDetector(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		history string
		want    bool
	}{
		"a test after an edit":        {"H test!:red edit:done test!:red", true},
		"of two calls":                {"H a:1 b:2 edit:done a:1+b:2", true},
		"at once":                     {"H test!:red test!:red", false},
		"by turns with a known one":   {"H a:1 b:2 a:1 b:2 a:1", false},
		"another result":              {"H test:red edit:done test:green", false},
		"a result that is not known":  {"H test edit:done test", false},
		"a call beside it":            {"H test:red edit:done test:red+b:2", false},
		"after an edit that failed":   {"H test!:red edit!:no test!:red", false},
		"after a poll":                {"H test:red wait?:x test:red", false},
		"a human asks again":          {"H1 test:red H2 test:red", true},
		"a harness asks again":        {"H1 test:red H1 test:red", false},
		"a job that goes on":          {"H wait:ok look:1 wait:ok look:2 wait:ok", true},
		"a human message at the end":  {"H1 test:red edit:done test:red H2", false},
		"a new call":                  {"H test:red edit:done", false},
		"nothing":                     {"", false},
		"an edit before both of them": {"H edit:done test:red test:red", false},
	} {
		if got := rounds.Again(made(c.history)); got != c.want {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}
