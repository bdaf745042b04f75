package measure

import (
	"fmt"
	"io"
	"slices"
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

// Print writes the table as Markdown with aligned columns.
func (t *Table) Print(w io.Writer) {
	out := tabwriter.NewWriter(w, 0, 0, 1, ' ', 0)
	for _, row := range append([][]string{t.Head, slices.Repeat([]string{"---"}, len(t.Head))}, t.Rows...) {
		fmt.Fprintln(out, "| "+strings.Join(row, "\t| ")+"\t|")
	}
	_ = out.Flush() // an error of the terminal cannot be reported to it
}

// Figure is a row of a table.
type Figure struct {
	Name, Format string
	// Of names the figure of a sample.
	Of string
	// Share shows the percentage of all calls that the meter counts. A median would hide
	// what is rare.
	Share bool
	// Beside compares a contender's figure with its base's within a round, and Comparison
	// is the format for that. Without Beside, they are not compared.
	Beside     func(figure, base float64) float64
	Comparison string
}

// Times returns the figure, shown with its ratio to the base's.
func (f Figure) Times() Figure {
	f.Beside, f.Comparison = func(a, b float64) float64 { return a / b }, "%.2f"
	return f
}

// More returns the figure, shown with its difference from the base's.
func (f Figure) More() Figure {
	f.Beside, f.Comparison = func(a, b float64) float64 { return a - b }, strings.Replace(f.Format, "%", "%+", 1)
	return f
}

// Figures that every contender has.
var (
	P50  = Figure{Name: "p50 ms", Format: "%.3f", Of: p50}.Times()
	P99  = Figure{Name: "p99 ms", Format: "%.2f", Of: p99}
	Rate = Figure{Name: "operations/s", Format: "%.0f", Of: perSecond}.Times()
)

// Table returns a table with a column for each contender. Comparisons with the base follow
// in parentheses.
func (r *Results) Table(base string, figures []Figure) *Table {
	return r.table(r.names, func(name string) string {
		if name == base {
			return ""
		}
		return base
	}, figures)
}

// Against returns a table of the contenders for which another one has the same name with a
// suffix, and compares each with that one.
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
	t := &Table{Head: append([]string{"at " + r.each("%.0f", func(level int) float64 { return float64(level) })}, names...)}
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
	if f.Share {
		return r.each(f.Format, func(level int) float64 { return 100 * r.mean(name, level, f.Of) })
	}
	if len(r.values(name, r.plan.Levels[0], f.Of)) == 0 {
		return "–"
	}
	text := r.each(f.Format, func(level int) float64 { return median(r.values(name, level, f.Of)) })
	if base == "" || f.Beside == nil {
		return text
	}
	return text + " (" + r.each(f.Comparison, func(level int) float64 { return r.compare(name, base, level, f.Of, f.Beside) }) + ")"
}

// each joins the values at all levels.
func (r *Results) each(format string, value func(level int) float64) string {
	var out []string
	for _, level := range r.plan.Levels {
		out = append(out, fmt.Sprintf(format, value(level)))
	}
	return strings.Join(out, " / ")
}
