package board

import (
	"fmt"
	"testing"
	"time"

	"github.com/unloop/unloop/schemas/event"
)

// However many loops are open, none of them counts as over before it ends.
func TestOpenLoopsStayOpenWhateverTheirNumber(t *testing.T) {
	t.Parallel()
	for _, n := range []int{900, maxIncidents + 600} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			t.Parallel()
			b := New()
			later := noon.Add(30 * time.Minute)
			for i := range n {
				in := incident(fmt.Sprint("l", i), "p")
				in.Ends = noon.Add(time.Hour)
				b.History.Add(uint64(i+1), published(t, event.Detected, noon, in.Data))
				b.Incidents.Put(fmt.Sprint("live.p.", i), body(t, in))
			}
			shown, omitted := b.Loops(Filter{State: Open}, later)
			if len(shown) < min(n, maxIncidents) || omitted != (n > maxIncidents) {
				t.Errorf("%d of %d open loops are shown, some omitted: %t", len(shown), n, omitted)
			}
			if over := states(first(b.Loops(Filter{State: Resolved}, later))); len(over) > 0 {
				t.Errorf("%d open loops count as over", len(over))
			}
			if got := b.OpenLoops(later); got != n {
				t.Errorf("%d loops are open, want %d", got, n)
			}
			if after := b.OpenLoops(noon.Add(2 * time.Hour)); after != 0 {
				t.Errorf("%d loops are open after the end of all", after)
			}
		})
	}
}

// A loop whose record was not kept is over when it is removed or released, and kept again
// when it is written again.
func TestLoopsWithoutRoomEndAndGoOn(t *testing.T) {
	t.Parallel()
	b := New()
	later := noon.Add(30 * time.Minute)
	put := func(i int) {
		in := incident(fmt.Sprint("l", i), "p")
		in.Ends = noon.Add(time.Hour)
		b.Incidents.Put(fmt.Sprint("live.p.", i), body(t, in))
	}
	const n = maxIncidents + 3
	for i := range n {
		put(i)
	}
	b.Incidents.Delete("live.p.0")
	b.Incidents.Release("l1")
	put(2) // and l3 has no room
	for id, want := range map[string]string{"l0": Resolved, "l1": Resolved, "l2": Open, "l3": Open} {
		if l, ok := b.Loop(id, later); !ok || l.State != want {
			t.Errorf("%s is %q, want %q", id, l.State, want)
		}
	}
	if got := b.OpenLoops(later); got != n-2 {
		t.Errorf("%d loops are open, want %d", got, n-2)
	}
	b.Incidents.Replace(nil)
	if got := b.OpenLoops(later); got != 0 {
		t.Errorf("%d loops are open after all records went", got)
	}
}

// A loop may be released before its record was read: the event alone told of it.
func TestAReleasedLoopIsOverWithoutItsRecord(t *testing.T) {
	t.Parallel()
	b := New()
	b.History.Add(1, published(t, event.Detected, noon, data("l1", "p")))
	soon := noon.Add(time.Second)
	if l, _ := b.Loop("l1", soon); l.State != Open {
		t.Fatalf("the record is on its way, and the loop is %q", l.State)
	}
	b.Incidents.Release("l1")
	b.Incidents.Release("l2") // nobody knows it
	if l, _ := b.Loop("l1", soon); l.State != Resolved {
		t.Errorf("the loop is %q", l.State)
	}
}
