package realparts

import (
	"slices"
	"testing"
	"time"
)

// Versus runs two functions in turns, so that a busy machine slows down both,
// and reports their medians in ms and the ratio of those.
func Versus(b *testing.B, ours, bare func() error) {
	b.Helper()
	var times [2][]time.Duration
	for b.Loop() {
		for i, f := range []func() error{ours, bare} {
			began := time.Now()
			if err := f(); err != nil {
				b.Fatal(err)
			}
			times[i] = append(times[i], time.Since(began))
		}
	}
	var medians [2]float64
	for i := range times {
		slices.Sort(times[i])
		medians[i] = float64(times[i][len(times[i])/2].Microseconds()) / 1000
	}
	b.ReportMetric(medians[0], "ours-ms")
	b.ReportMetric(medians[1], "bare-ms")
	b.ReportMetric(medians[0]/medians[1], "ratio")
}
