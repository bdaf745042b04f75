package bounded

import (
	"strings"
	"testing"
	"unicode/utf8"
)

func TestName(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("ä", 20)
	for name, c := range map[string]struct{ name, want string }{
		"a short name":   {"name", "name"},
		"one that fits":  {strings.Repeat("a", 30), strings.Repeat("a", 30)},
		"no valid UTF-8": {"a\xffb", "ab"},
		"nothing":        {"", ""},
	} {
		if got := Name(c.name, 30); got != c.want {
			t.Errorf("%s: %q", name, got)
		}
	}
	short := Name(long, 30)
	if len(short) > 30 || !utf8.ValidString(short) || !strings.HasPrefix(short, "ääää") || short == Name(long+"x", 30) || short != Name(long, 30) {
		t.Errorf("%q became %q", long, short)
	}
}

func TestMakeRoom(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ entries, key, left int }{
		"of an empty map":         {0, 1, 0},
		"of a map with room":      {2, 9, 2},
		"of a full map":           {3, 9, 2},
		"for an entry of the map": {3, 1, 3},
	} {
		m := map[int]bool{}
		for i := range c.entries {
			m[i] = true
		}
		if MakeRoom(m, c.key, 3); len(m) != c.left {
			t.Errorf("%s: %d entries are left, want %d", name, len(m), c.left)
		}
	}
}
