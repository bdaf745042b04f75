package repair

import (
	"fmt"
	"strings"
)

// Report counts the changes of a repair.
type Report struct {
	Orphans    int // results without a call, removed
	Synthetic  int // results made for calls without one
	Moved      int // results moved to their place behind their call
	Duplicates int // further results of one call, removed
	Rescued    int // results moved out of a message of the model
	Empty      int // messages and texts without content, removed
}

// Each calls f for each kind of change that occurred.
func (r Report) Each(f func(kind string, n int)) {
	for _, c := range []struct {
		kind string
		n    int
	}{
		{"orphans", r.Orphans}, {"synthetic", r.Synthetic}, {"moved", r.Moved}, {"duplicates", r.Duplicates},
		{"rescued", r.Rescued}, {"empty", r.Empty},
	} {
		if c.n > 0 {
			f(c.kind, c.n)
		}
	}
}

// Changed reports whether there was any change.
func (r Report) Changed() bool { return r != Report{} }

// String returns the changes as in "orphans=1, synthetic=2", for headers and logs.
func (r Report) String() string {
	var b strings.Builder
	r.Each(func(kind string, n int) {
		if b.Len() > 0 {
			b.WriteString(", ")
		}
		fmt.Fprintf(&b, "%s=%d", kind, n)
	})
	return b.String()
}
