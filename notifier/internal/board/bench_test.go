package board

import (
	"fmt"
	"testing"
	"time"

	"github.com/unloop/unloop/schemas/event"
)

// Each change of one loop among 5,000, and what the page reads then.
func BenchmarkAChangeAmong5000Loops(b *testing.B) {
	board := New()
	for i := range 5000 {
		in := incident(fmt.Sprint("l", i), fmt.Sprint("p", i%7))
		in.Findings = []event.Finding{{Detector: "tool", Tool: fmt.Sprint("tool", i%40), HitCount: 6}}
		in.Ends = noon.Add(time.Hour)
		board.Incidents.Put(fmt.Sprint("live.p.", i), in.Append(nil))
	}
	for b.Loop() {
		in := incident("l1", "p1")
		in.Ends = noon.Add(time.Hour)
		board.Incidents.Put("live.p.1", in.Append(nil))
		open, _ := board.Loops(Filter{State: Open, Order: ByAge}, noon)
		all, _ := board.Loops(Filter{Since: noon.Add(-time.Hour)}, noon)
		Summarize(all, noon.Add(-time.Hour), noon)
		Line(all, noon.Add(-time.Hour), noon)
		if len(open) != 5000 || len(Groups(open, "tool", ByHits)) != 41 {
			b.Fatal(len(open), len(Groups(open, "tool", ByHits)))
		}
	}
}
