package rounds_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/unloop/unloop/gateway/internal/wire/transcript/message"
	"github.com/unloop/unloop/gateway/internal/wire/transcript/rounds"
)

// window returns lines of a file, behind a line that says which.
func window(from, to int) string {
	var b strings.Builder
	fmt.Fprintf(&b, "lines %d to %d\n", from, to)
	for i := from; i < to; i++ {
		fmt.Fprintf(&b, "%4d  a line %d of \"the\" file\n", i, i*i)
	}
	return b.String() + "(there is more)"
}

func TestResultsThatTellOnlyWhatOthersTold(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		results []string
		failed  bool
		want    bool
	}{
		"a part of a file":        {[]string{window(0, 100), window(30, 50)}, false, true},
		"windows that overlap":    {[]string{window(0, 40), "edited", window(30, 100), window(20, 60)}, false, true},
		"one line more":           {[]string{window(0, 49), window(30, 50)}, false, false},
		"a first look":            {[]string{window(0, 100)}, false, false},
		"few lines":               {[]string{window(0, 100), window(30, 34)}, false, false},
		"short lines":             {[]string{strings.Repeat("a\nb\nc\n", 9), strings.Repeat("b\nc\na\n", 9)}, false, false},
		"the same line each time": {[]string{strings.Repeat("nothing here\n", 20), strings.Repeat("nothing here\n", 10)}, false, false},
		"too many lines":          {[]string{window(0, 5000), window(0, 4999)}, false, false},
		"a failure":               {[]string{window(0, 100), window(30, 50)}, true, false},
	} {
		r := rounds.New(len(c.results), &message.Digester{})
		conv := &conversation{Rounds: &r}
		for i, result := range c.results {
			id := fmt.Appendf(nil, "call-%d", i)
			say(conv, message.Assistant, message.Part{Kind: message.Call, ID: id, Name: []byte("view"), Value: fmt.Appendf(nil, `{"from":%d}`, i)})
			content := text(result)
			content.Inside = true
			say(conv, message.Tool, message.Part{Kind: message.Result, ID: id, Failed: c.failed}, content)
		}
		items, _ := conv.History(rounds.Rules{})
		for i, it := range items {
			if got := it.Calls[0].Retold; got != (c.want && i == len(items)-1) {
				t.Errorf("%s: call %d is retold: %t", name, i, got)
			}
		}
	}
}
