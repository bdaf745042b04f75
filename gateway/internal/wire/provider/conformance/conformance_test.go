package conformance

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/unloop/unloop/gateway/internal/wire/provider"
	"github.com/unloop/unloop/gateway/internal/wire/provider/formats"
)

// all are the formats of the gateway.
var all = formats.All

func TestProviders(t *testing.T) {
	t.Parallel()
	for _, p := range all {
		if Formats[p.Name()] == nil {
			t.Errorf("no conversations are written in %s", p.Name())
			continue
		}
		t.Run(p.Name(), func(t *testing.T) {
			t.Parallel()
			Run(t, p, Formats[p.Name()])
		})
	}
}

func TestOneConversationHasTheSameDigestsInEveryFormat(t *testing.T) {
	t.Parallel()
	for turns := range 6 {
		c := Fixing()
		c.Turns = c.Turns[:turns]
		c.Turns = append(c.Turns, Turn{Human: "And now this?"})
		var first *provider.Prompt
		for _, p := range all {
			prompt, err := p.Parse(Formats[p.Name()](c), provider.Options{Tail: 3})
			if err != nil {
				t.Fatal(err)
			}
			if first == nil {
				first = prompt
			}
			if prompt.Opening != first.Opening || prompt.Transcript.Agent() != first.Transcript.Agent() {
				t.Errorf("%s: opening or agent differ", p.Name())
			}
			if diff := cmp.Diff(texts(first.Tail), texts(prompt.Tail)); diff != "" {
				t.Errorf("%s after %d turns: %s", p.Name(), turns, diff)
			}
		}
	}
}

// texts leaves out the strict digests, which know a failure only where the format
// marks it.
func texts(tail []provider.Message) (out []string) {
	for _, m := range tail {
		out = append(out, m.Text.String())
	}
	return out
}
