package bounded

import "testing"

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
