package measure

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"
)

// Table is a table of figures; the first column has the names of the rows.
type Table struct {
	Head []string
	Rows [][]string
}

// Add adds a row.
func (t *Table) Add(cells ...string) { t.Rows = append(t.Rows, cells) }

// Print writes the table as text.
func (t *Table) Print(w io.Writer) {
	out := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	for _, row := range append([][]string{t.Head}, t.Rows...) {
		fmt.Fprintln(out, strings.Join(row, "\t")+"\t")
	}
	_ = out.Flush() // an error of the terminal cannot be reported to it
}

// Markdown writes the table as Markdown.
func (t *Table) Markdown(w io.Writer) {
	line := func(cells []string) { fmt.Fprintln(w, strings.TrimSpace("| "+strings.Join(cells, " | ")+" |")) }
	line(t.Head)
	fmt.Fprintln(w, strings.Repeat("|---", len(t.Head))+"|")
	for _, row := range t.Rows {
		line(row)
	}
}

// Rates returns a table with a row for each contender and a column for each level:
// operations a second, and in brackets the latencies p50 and p99.
func (r *Results) Rates() *Table {
	t := &Table{Head: []string{"operations/s (p50, p99)"}}
	for _, level := range r.plan.Levels {
		t.Head = append(t.Head, fmt.Sprintf("%d in flight", level))
	}
	for _, name := range r.names {
		row := []string{name}
		for _, level := range r.plan.Levels {
			s := r.Median(name, level)
			row = append(row, fmt.Sprintf("%s (%s, %s)", Grouped(s.PerSecond), Short(s.P50), Short(s.P99)))
		}
		t.Add(row...)
	}
	return t
}

// Failed returns the number of operations that failed and do not count.
func (r *Results) Failed() (n int) {
	for _, samples := range r.samples {
		for _, s := range samples {
			n += s.Failed
		}
	}
	return n
}

// Row adds a row with a figure of each contender at all levels, in the order of the
// contenders. If beside is not nil, what it compares with the base is in brackets behind
// the figures, within rounds.
func (r *Results) Row(t *Table, label, format string, figure func(Sample) float64, beside *Beside) {
	row := []string{label}
	for _, name := range r.names {
		cell := r.each(func(level int) string { return fmt.Sprintf(format, figure(r.Median(name, level))) })
		if beside != nil && name != beside.Base {
			cell += " (" + r.Ratios(name, beside.Base, beside.Format, beside.Compare) + ")"
		}
		row = append(row, cell)
	}
	t.Add(row...)
}

// Ratios writes the ratios of two contenders' figures at all levels.
func (r *Results) Ratios(a, b, format string, compare func(a, b Sample) float64) string {
	return r.each(func(level int) string { return fmt.Sprintf(format, r.Ratio(a, b, level, compare)) })
}

// each joins texts of all levels.
func (r *Results) each(text func(level int) string) string {
	var out []string
	for _, level := range r.plan.Levels {
		out = append(out, text(level))
	}
	return strings.Join(out, " / ")
}

// Beside compares contenders with a base.
type Beside struct {
	Base, Format string
	Compare      func(a, b Sample) float64
}

// Levels names the levels, such as 1 / 8 / 64.
func (r *Results) Levels() string { return r.each(strconv.Itoa) }

// Names are those of the contenders.
func (r *Results) Names() []string { return r.names }

// Grouped writes a rate with three digits or more that count, in groups of thousands.
func Grouped(n float64) string {
	text := fmt.Sprintf("%.0f", n)
	for at := len(text) - 3; at > 0; at -= 3 {
		text = text[:at] + " " + text[at:]
	}
	return text
}

// Short writes a duration with three digits.
func Short(d time.Duration) string {
	switch {
	case d < time.Millisecond:
		return fmt.Sprintf("%d µs", d.Microseconds())
	case d < 100*time.Millisecond:
		return fmt.Sprintf("%.1f ms", d.Seconds()*1000)
	}
	return fmt.Sprintf("%.0f ms", d.Seconds()*1000)
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

// AtMost returns a target for a figure of a's and b's samples.
func (r *Results) AtMost(text, a, b string, most float64, unit string, figure func(a, b Sample) float64, levels ...int) Target {
	return Target{Text: text, Levels: levels, Unit: unit, Figure: func(level int) (float64, bool) {
		value := r.Ratio(a, b, level, figure)
		return value, value <= most
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
