package glob_test

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/unloop/unloop/schemas/glob"
)

func TestMatch(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		pattern, name string
		want          bool
	}{
		{"", "", true}, {"", "a", false}, {"*", "", true}, {"*", "abc", true}, {"?", "", false}, {"?", "a", true}, {"?", "ab", false},
		{"a*", "abc", true}, {"a*", "ba", false}, {"*c", "abc", true}, {"a*c", "abbc", true}, {"a*c", "abcd", false}, {"a**c", "ac", true},
		{"a?c", "abc", true}, {"a?c", "ac", false}, {"*a*b*", "xxaxxbxx", true}, {"*a*b*", "xxbxxaxx", false}, {"abc", "abc", true}, {"abc", "ABC", false},
		{"gpt-4o*", "gpt-4o-mini", true}, {"a*?", "a", false}, {"a*?", "ab", true},
	} {
		if got := glob.Match(c.pattern, c.name); got != c.want {
			t.Errorf("Match(%q, %q): %v, want %v", c.pattern, c.name, got, c.want)
		}
	}
	if !glob.MatchAny([]string{"x", "a*"}, "abc") || glob.MatchAny([]string{"x", "b*"}, "abc") || glob.MatchAny(nil, "") {
		t.Error("one pattern of the list must match")
	}
}

// slow is Match written as its definition.
func slow(pattern, name string) bool {
	switch {
	case pattern == "":
		return name == ""
	case pattern[0] == '*':
		return slow(pattern[1:], name) || name != "" && slow(pattern, name[1:])
	case name == "":
		return false
	default:
		return (pattern[0] == '?' || pattern[0] == name[0]) && slow(pattern[1:], name[1:])
	}
}

func TestMatchIsWhatItsDefinitionSays(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		pattern := rapid.StringMatching(`[ab*?]{0,8}`).Draw(t, "pattern")
		name := rapid.StringMatching(`[ab]{0,10}`).Draw(t, "name")
		if got, want := glob.Match(pattern, name), slow(pattern, name); got != want {
			t.Fatalf("Match(%q, %q): %v, want %v", pattern, name, got, want)
		}
	})
}

func TestPartsOfPatterns(t *testing.T) {
	t.Parallel()
	for pattern, want := range map[string]struct {
		prefix   string
		whole    bool
		literals int
	}{
		"": {"", true, 0}, "abc": {"abc", true, 3}, "ab*c": {"ab", false, 3}, "*": {"", false, 0}, "a?b?": {"a", false, 2},
	} {
		if prefix, whole := glob.Prefix(pattern); prefix != want.prefix || whole != want.whole {
			t.Errorf("Prefix(%q): %q, %v; want %q, %v", pattern, prefix, whole, want.prefix, want.whole)
		}
		if got := glob.Literals(pattern); got != want.literals {
			t.Errorf("Literals(%q): %d, want %d", pattern, got, want.literals)
		}
	}
}
