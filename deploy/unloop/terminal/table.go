package terminal

import (
	"io"
	"strings"

	"github.com/rivo/uniseg"
)

// gap is the space between two columns.
const gap = 2

// Column is a column of a table.
type Column struct {
	Name string
	// Rank orders the columns that a narrow screen drops: the highest rank first, rank 0
	// never.
	Rank int
	// MinWidth is the width down to which values may be truncated; 0 keeps them whole.
	MinWidth int
	// Right aligns the column to the right, for numbers.
	Right bool
}

// Table collects rows and prints them in aligned columns. Make it with NewTable.
type Table struct {
	columns []Column
	rows    [][]Cell
}

// Cell is a text in a table, with its style.
type Cell struct {
	Text  string
	Style Style
}

// NewTable returns a table without rows.
func NewTable(columns ...Column) *Table { return &Table{columns: columns} }

// Row adds a row of one string or Cell for each column. An empty one is printed as "-".
func (t *Table) Row(cells ...any) {
	row := make([]Cell, len(t.columns))
	for i, c := range cells {
		switch c := c.(type) {
		case string:
			row[i] = Cell{Text: c}
		case Cell:
			row[i] = c
		}
		if row[i].Text = Clean(row[i].Text); row[i].Text == "" {
			row[i] = Cell{Text: none}
		}
	}
	t.rows = append(t.rows, row)
}

// none stands in for an empty cell.
const none = "-"

// Print prints the header and the rows. If the screen has a width, it drops empty columns
// with a rank, truncates values, and drops further columns until the table fits.
func (t *Table) Print(w io.Writer, s Screen) error {
	widths := t.fit(s.Width)
	var out strings.Builder
	header := make([]Cell, len(t.columns))
	for i, c := range t.columns {
		header[i] = Cell{c.Name, Bold}
	}
	t.line(&out, s, widths, header)
	for _, row := range t.rows {
		t.line(&out, s, widths, row)
	}
	_, err := io.WriteString(w, out.String())
	return err
}

// fit returns the widths of the columns on a screen; 0 for a dropped one.
func (t *Table) fit(screen int) []int {
	out := make([]bool, len(t.columns))
	if screen > 0 {
		for i := range t.columns {
			out[i] = t.columns[i].Rank > 0 && t.empty(i)
		}
	}
	for {
		widths, fits := t.cut(screen, out)
		if fits {
			return widths
		}
		last := -1
		for i, c := range t.columns {
			if !out[i] && c.Rank > 0 && (last < 0 || c.Rank >= t.columns[last].Rank) {
				last = i
			}
		}
		if last < 0 {
			return widths // the terminal wraps the lines
		}
		out[last] = true
	}
}

// cut returns the widths of the columns that are not out, and whether they fit. It narrows
// the widest column first.
func (t *Table) cut(screen int, out []bool) (widths []int, fits bool) {
	widths = make([]int, len(t.columns))
	total := -gap
	for i := range t.columns {
		if !out[i] {
			widths[i] = t.width(i)
			total += widths[i] + gap
		}
	}
	for screen > 0 && total > screen {
		widest := -1
		for i, c := range t.columns {
			if !out[i] && c.MinWidth > 0 && widths[i] > max(c.MinWidth, len(c.Name)) && (widest < 0 || widths[i] > widths[widest]) {
				widest = i
			}
		}
		if widest < 0 {
			return widths, false
		}
		widths[widest]--
		total--
	}
	return widths, true
}

// width returns the width of the widest value of a column.
func (t *Table) width(column int) int {
	most := uniseg.StringWidth(t.columns[column].Name)
	for _, row := range t.rows {
		most = max(most, uniseg.StringWidth(row[column].Text))
	}
	return most
}

func (t *Table) empty(column int) bool {
	for _, row := range t.rows {
		if row[column].Text != none {
			return false
		}
	}
	return true
}

func (t *Table) line(out *strings.Builder, s Screen, widths []int, cells []Cell) {
	pad := 0 // spaces before the next cell; none stand at the end of a line
	for i, cell := range cells {
		if widths[i] == 0 {
			continue
		}
		text := Truncate(cell.Text, widths[i])
		free := widths[i] - uniseg.StringWidth(text)
		if t.columns[i].Right {
			pad, free = pad+free, 0
		}
		out.WriteString(strings.Repeat(" ", pad))
		out.WriteString(s.Paint(cell.Style, text))
		pad = free + gap
	}
	out.WriteByte('\n')
}

// Truncate shortens a text to a width; "…" marks the missing rest.
func Truncate(text string, width int) string {
	if uniseg.StringWidth(text) <= width {
		return text
	}
	var out strings.Builder
	left, state := width-1, -1
	for text != "" {
		var cluster string
		var wide int
		cluster, text, wide, state = uniseg.FirstGraphemeClusterInString(text, state)
		if left -= wide; left < 0 {
			break
		}
		out.WriteString(cluster)
	}
	return out.String() + "…"
}
