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
	// Of names the figure of a sample, which is multiplied by Unit if that is not 0.
	Of   string
	Unit float64
	// Share shows the percentage of all calls that the meter counts: a median would hide
	// what is rare.
	Share bool
	// Beside compares a contender's figure with its base's within a round, and Comparison
	// is how that is shown. It may be nil.
	Beside     func(figure, base float64) float64
	Comparison string
}

// times is the multiple of the base's figure.
func times(a, b float64) float64 { return a / b }

// Times returns a figure with its ratio to the base's.
func (f Figure) Times() Figure {
	f.Beside, f.Comparison = times, "%.2f"
	return f
}

// More returns a figure with its difference to the base's.
func (f Figure) More() Figure {
	f.Beside, f.Comparison = func(a, b float64) float64 { return a - b }, strings.Replace(f.Format, "%", "%+", 1)
	return f
}

// The figures of all contenders.
var (
	P50  = Figure{Name: "p50 ms", Format: "%.3f", Of: p50}.Times()
	P99  = Figure{Name: "p99 ms", Format: "%.2f", Of: p99}
	Rate = Figure{Name: "operations/s", Format: "%.0f", Of: perSecond}.Times()
)

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
	unit := f.Unit
	if unit == 0 {
		unit = 1
	}
	text := r.each(f.Format, func(level int) float64 { return unit * r.median(name, level, f.Of) })
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
