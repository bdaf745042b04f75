package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"
)

// streams are where a command writes.
type streams struct {
	out, err io.Writer
}

// json prints a value as indented JSON.
func (s streams) json(v any) error {
	enc := json.NewEncoder(s.out)
	enc.SetIndent("", "  ")
	return enc.Encode(v)
}

// table prints a table alone.
func (s streams) table(header string, rows func(*printer)) error {
	out := &printer{w: s.out}
	out.table(header, rows)
	return out.err
}

// printer keeps the first error of a series of prints.
type printer struct {
	w   io.Writer
	err error
}

func (p *printer) printf(format string, args ...any) {
	if p.err == nil {
		_, p.err = fmt.Fprintf(p.w, format, args...)
	}
}

// table prints a header and rows. Tabs separate their columns.
func (p *printer) table(header string, rows func(*printer)) {
	w := tabwriter.NewWriter(p.w, 0, 0, 2, ' ', 0)
	t := &printer{w: w, err: p.err}
	t.printf("%s\n", header)
	rows(t)
	if p.err = t.err; p.err == nil {
		p.err = w.Flush()
	}
}

// plural returns a number with its noun.
func plural(n int, noun string) string { return counted(n, strconv.Itoa(n), noun) }

// counted returns a formatted number with its noun in the right form.
func counted(n int, formatted, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	if stem, ok := strings.CutSuffix(noun, "y"); ok {
		noun = stem + "ie"
	}
	return formatted + " " + noun + "s"
}
