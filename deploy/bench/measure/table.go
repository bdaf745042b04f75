package measure

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"
)

// Print writes a table with a row for each contender and a column for each
// level: operations a second, and latencies in microseconds.
func (r *Results) Print(w io.Writer) {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	head := "\t"
	for _, level := range r.plan.Levels {
		head += fmt.Sprintf("%d in flight: /s\tp50 µs\tp99 µs\t", level)
	}
	fmt.Fprintln(t, head)
	failed := 0
	for _, name := range r.names {
		row := name + "\t"
		for _, level := range r.plan.Levels {
			s := r.Median(name, level)
			failed += s.Failed
			row += fmt.Sprintf("%.0f\t%d\t%d\t", s.PerSecond, s.P50.Microseconds(), s.P99.Microseconds())
		}
		fmt.Fprintln(t, row)
	}
	_ = t.Flush() // an error of the terminal cannot be reported to it
	if failed > 0 {
		fmt.Fprintf(w, "%d operations failed and do not count.\n", failed)
	}
}

// Target is a figure that a contender should reach.
type Target struct {
	Text string
	// Levels are the levels that the target applies to.
	Levels []int
	// Figure returns the figure at a level, and whether it reaches the target.
	Figure func(level int) (value float64, ok bool)
	// Unit follows the figure, such as "×".
	Unit string
}

// PrintTargets writes each target with its figures.
func PrintTargets(w io.Writer, targets ...Target) {
	for _, target := range targets {
		var figures []string
		verdict := "ok  "
		for _, level := range target.Levels {
			value, ok := target.Figure(level)
			figures = append(figures, fmt.Sprintf("%d: %.2f%s", level, value, target.Unit))
			if !ok {
				verdict = "MISS"
			}
		}
		fmt.Fprintf(w, "  %s  %s — %s\n", verdict, target.Text, strings.Join(figures, ", "))
	}
}

// AtLeast returns a target for a's rate as a multiple of b's.
func (r *Results) AtLeast(text, a, b string, least float64, levels ...int) Target {
	return Target{Text: text, Levels: levels, Unit: "×", Figure: func(level int) (float64, bool) {
		ratio := r.Ratio(a, b, level, Faster)
		return ratio, ratio >= least
	}}
}

// AddsAtMost returns a target for the latency that a adds to a base, as a multiple of the
// latency that b adds to it.
func (r *Results) AddsAtMost(text, a, b, base string, most float64, levels ...int) Target {
	return Target{Text: text, Levels: levels, Unit: "×", Figure: func(level int) (float64, bool) {
		floor := r.Median(base, level).P50
		added := func(name string) time.Duration { return r.Median(name, level).P50 - floor }
		ratio := float64(added(a)) / float64(max(added(b), time.Microsecond))
		return ratio, ratio <= most
	}}
}
