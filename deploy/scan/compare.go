package scan

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"github.com/unloop/unloop/schemas/checkpb"
)

// Did is what a bundle would have done with a session: the number of the first request with a
// finding, with a hint, and that is stopped; 0 if there is none.
type Did struct {
	Found   int `json:"found"`
	Hinted  int `json:"hinted"`
	Stopped int `json:"stopped"`
}

// with adds a finding about request n.
func (d Did) with(f *checkpb.Finding, n int) Did {
	d.Found = earlier(d.Found, n)
	switch {
	case f.GetShadow():
	case f.GetAction().Stops():
		d.Stopped = earlier(d.Stopped, n)
	case f.GetAction() == checkpb.Action_ACTION_HINT:
		d.Hinted = earlier(d.Hinted, n)
	}
	return d
}

// first returns the earlier numbers of both.
func (d Did) first(o Did) Did {
	return Did{earlier(d.Found, o.Found), earlier(d.Hinted, o.Hinted), earlier(d.Stopped, o.Stopped)}
}

// earlier returns the smaller of two numbers, ignoring 0.
func earlier(a, b int) int {
	if a == 0 || b != 0 && b < a {
		return b
	}
	return a
}

// String returns it in words.
func (d Did) String() string {
	switch {
	case d.Stopped > 0:
		return fmt.Sprintf("stops at %d", d.Stopped)
	case d.Hinted > 0:
		return fmt.Sprintf("hints at %d", d.Hinted)
	case d.Found > 0:
		return fmt.Sprintf("reports at %d", d.Found)
	}
	return "nothing"
}

// Change is a session that two bundles treat differently.
type Change struct {
	Session string `json:"session"`
	File    string `json:"file"`
	One     Did    `json:"one"`
	Other   Did    `json:"other"`
}

// Compare returns the sessions that two bundles treat differently, sorted by name.
func Compare(one, other *Report) []Change {
	a, b := one.did(), other.did()
	names := maps.Clone(a)
	maps.Copy(names, b)
	out := []Change{}
	for _, name := range slices.SortedFunc(maps.Keys(names), func(x, y place) int { return cmp.Or(cmp.Compare(x.file, y.file), cmp.Compare(x.session, y.session)) }) {
		if a[name] != b[name] {
			out = append(out, Change{name.session, name.file, a[name], b[name]})
		}
	}
	return out
}

type place struct{ file, session string }

// did returns what was done in each session with a loop.
func (r *Report) did() map[place]Did {
	out := map[place]Did{}
	for _, l := range r.Loops {
		at := place{l.First.File, l.Session}
		out[at] = out[at].first(l.Did)
	}
	return out
}
