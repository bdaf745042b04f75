package measure

import (
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
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

// Figure is a row of a table.
type Figure struct {
	Name, Format string
	// Of returns the figure of a sample, NaN if it has none. It is nil for Share.
	Of func(Sample) float64
	// share names the meter's figure; the value is its mean over all calls.
	share string
	// Beside compares the figure with the base's; it may be nil.
	Beside *Comparison
}

// Comparison compares a contender's figure with its base's within a round.
type Comparison struct {
	Format string
	Of     func(figure, base float64) float64
}

// Times is the multiple of the base's figure.
var Times = &Comparison{"%.2f", func(a, b float64) float64 { return a / b }}

// More returns the difference to the base's figure.
func More(format string) *Comparison {
	return &Comparison{format, func(a, b float64) float64 { return a - b }}
}

// The figures of all contenders.
var (
	P50  = Figure{Name: "p50 ms", Format: "%.3f", Of: func(s Sample) float64 { return s.P50.Seconds() * 1000 }, Beside: Times}
	P99  = Figure{Name: "p99 ms", Format: "%.2f", Of: func(s Sample) float64 { return s.P99.Seconds() * 1000 }}
	Rate = Figure{Name: "operations/s", Format: "%.0f", Of: func(s Sample) float64 { return s.PerSecond }, Beside: Times}
)

// Read returns a figure of the meter, such as a time for each call, multiplied by unit.
func Read(name, format, figure string, unit float64, beside *Comparison) Figure {
	return Figure{Name: name, Format: format, Beside: beside, Of: func(s Sample) float64 {
		if value, ok := s.Figures[figure]; ok {
			return value * unit
		}
		return math.NaN()
	}}
}

// Share returns the percentage of all calls that the meter counts under a figure. A median
// would hide what is rare.
func Share(name, figure string) Figure { return Figure{Name: name, Format: "%.2f", share: figure} }

// Table has a column for each contender. Compared figures are followed by their ratio to
// the base's, in parentheses.
func (r *Results) Table(base string, figures []Figure) *Table {
	return r.table(r.names, func(name string) string {
		if name == base {
			return ""
		}
		return base
	}, figures)
}

// Against returns a table with a column for each contender that has a counterpart with the
// suffix, compared with that counterpart.
func (r *Results) Against(suffix string, figures []Figure) *Table {
	var names []string
	for _, name := range r.names {
		if slices.Contains(r.names, name+suffix) {
			names = append(names, name)
		}
	}
	return r.table(names, func(name string) string { return name + suffix }, figures)
}

func (r *Results) table(names []string, base func(name string) string, figures []Figure) *Table {
	t := &Table{Head: append([]string{"at " + r.each(strconv.Itoa)}, names...)}
	for _, f := range figures {
		row := []string{f.Name}
		for _, name := range names {
			row = append(row, r.cell(name, base(name), f))
		}
		t.Add(row...)
	}
	return t
}

func (r *Results) cell(name, base string, f Figure) string {
	if f.share != "" {
		return r.each(func(level int) string { return fmt.Sprintf(f.Format, 100*r.mean(name, level, f.share)) })
	}
	if math.IsNaN(f.Of(r.Median(name, r.plan.Levels[0]))) {
		return "–"
	}
	text := r.each(func(level int) string { return fmt.Sprintf(f.Format, f.Of(r.Median(name, level))) })
	if base == "" || f.Beside == nil {
		return text
	}
	compare := func(a, b Sample) float64 { return f.Beside.Of(f.Of(a), f.Of(b)) }
	return text + " (" + r.each(func(level int) string { return fmt.Sprintf(f.Beside.Format, r.Ratio(name, base, level, compare)) }) + ")"
}

// each joins texts of all levels.
func (r *Results) each(text func(level int) string) string {
	var out []string
	for _, level := range r.plan.Levels {
		out = append(out, text(level))
	}
	return strings.Join(out, " / ")
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
