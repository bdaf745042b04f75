package toolloop_test

import (
	"fmt"
	"testing"

	"github.com/unloop/unloop/detector/internal/toolloop"
)

// BenchmarkStep takes in one more round at the end of a history of 2 000 messages,
// that is 1 000 rounds, as a gateway sends it whole or in part.
func BenchmarkStep(b *testing.B) {
	history := []toolloop.Item{human("go")}
	for i := range 1000 {
		c := call(fmt.Sprintf("Tool%d", i), "ok")
		c.ID = hash(fmt.Sprint("id", i))
		history = append(history, round(c))
	}
	last := len(history) - 1
	for name, from := range map[string]int{"whole": 0, "newest-40": last - 40} {
		ev := toolloop.Evidence{Items: history[from:last], Own: true}
		state, _ := toolloop.Step(toolloop.State{}, ev, toolloop.DefaultParams(), noon)
		stored := state.Append(nil)
		ev.Items = history[from:]
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				var s toolloop.State
				if err := s.Parse(stored); err != nil {
					b.Fatal(err)
				}
				s, _ = toolloop.Step(s, ev, toolloop.DefaultParams(), noon)
				s.Append(make([]byte, 0, 4096))
			}
			b.ReportMetric(float64(len(stored)), "state-bytes")
		})
	}
	b.Run("first-sight", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			toolloop.Step(toolloop.State{}, toolloop.Evidence{Items: history}, toolloop.DefaultParams(), noon)
		}
	})
}
