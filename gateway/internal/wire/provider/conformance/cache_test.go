package conformance

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/unloop/unloop/gateway/internal/wire/provider"
)

// digests are all that a prompt is known by.
func digests(p *provider.Prompt) []any {
	t := p.Transcript
	items, before := t.History(provider.Rules{})
	said, answered := t.Exchange(1 << 10)
	return []any{
		p.Opening, p.Tail, items, before, said, answered, t.Beginning(), t.BeginningText(1), t.Recent(3), t.Rounds(), t.Agent(), t.Compacted(),
	}
}

func TestTextsThatWereReadBeforeAreReadTheSame(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("a long text that is worth remembering, ", 20)
	failing := func(failed bool) Conversation {
		c := Fixing()
		c.Turns = append(c.Turns, Turn{Said: long, Calls: []Call{{ID: "c9", Tool: "bash", Args: fmt.Sprintf(`{"command":%q}`, long)}}},
			Turn{Results: []Result{{ID: "c9", Tool: "bash", Text: long, Failed: failed}}})
		return c
	}
	for _, p := range all {
		t.Run(p.Name(), func(t *testing.T) {
			t.Parallel()
			cache := provider.NewCache()
			for name, c := range map[string]Conversation{
				"long": session(20 << 10), "short": Fixing(), "failed": failing(true), "not failed": failing(false),
			} {
				body := Formats[p.Name()](c)
				opts := provider.Options{Tail: 3, Items: 48, Exchanges: 5}
				first, err := p.Parse(body, opts)
				if err != nil {
					t.Fatal(err)
				}
				opts.Cache = cache
				for range 2 {
					again, err := p.Parse(body, opts)
					if err != nil {
						t.Fatal(err)
					}
					if diff := cmp.Diff(digests(first), digests(again)); diff != "" {
						t.Errorf("%s (-read +remembered):\n%s", name, diff)
					}
				}
			}
		})
	}
}
