package answerscan

import (
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// An event without any names tells nothing of another one but what both have in common.
func TestWhatAnEventHasInCommonWithOneBeforeIsKnown(t *testing.T) {
	t.Parallel()
	names := NamesOf("a", "id", "usage")
	pieces := rapid.Map(rapid.SliceOfN(rapid.SampledFrom([]string{
		`"`, `"id"`, `"usage":null`, `"usage":null,`, `,"a":null}`, `{"a":1`, `"x":"id`, `usage`, `,`, `{`, `}`, `:nul`, `l`, `"b":"some words and `, `"}]`,
	}), 0, 12), func(all []string) []byte { return []byte(strings.Join(all, "")) })
	rapid.Check(t, func(t *rapid.T) {
		begin, end := pieces.Draw(t, "begin"), pieces.Draw(t, "end")
		between := func(name string) []byte {
			text := append(append(append([]byte(nil), begin...), pieces.Draw(t, name)...), end...)
			return text[:len(text)-rapid.IntRange(0, min(1, len(text))).Draw(t, name+" is shorter")]
		}
		event, without := between("event"), between("without")
		if names.in(without, nil) {
			without = nil
		}
		if got, want := names.in(event, without), names.in(event, nil); got != want {
			t.Errorf("%t for %q after %q, want %t", got, event, without, want)
		}
	})
}
