package logs

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"

	"github.com/go-json-experiment/json/jsontext"
)

// input splits its bytes into entries.
type input struct{ *Lines }

func newInput(r io.Reader, limit int) *input { return &input{NewLines(r, limit)} }

// read decides by the first line whether each line is an entry: it is not if the first
// line is the beginning of a larger value.
func (in *input) read(out *sink) {
	in.skipMark()
	first, err := in.Next()
	for ; err == nil && len(bytes.TrimSpace(first)) == 0; first, err = in.Next() {
	}
	if errors.Is(err, io.EOF) && len(first) == 0 {
		return
	}
	out.line = in.N
	if err == nil && isBeginning(first) {
		rest := io.MultiReader(bytes.NewReader(append(bytes.Clone(first), '\n')), in.raw)
		(&document{in: bufio.NewReader(rest), limit: in.limit, left: in.limit, line: in.N}).read(out)
		return
	}
	in.readLines(first, err, out)
}

// skipMark skips a byte order mark.
func (in *input) skipMark() {
	if b, err := in.raw.Peek(3); err == nil && string(b) == "\xef\xbb\xbf" {
		_, _ = in.raw.Discard(3) // they were peeked at
	}
}

// isBeginning reports whether line is the beginning of a value that goes on after it.
func isBeginning(line []byte) bool {
	return errors.Is(newDecoder(line).SkipValue(), io.ErrUnexpectedEOF)
}

// readLines reads each line as an entry. A faulty one does not affect the next.
func (in *input) readLines(line []byte, err error, out *sink) {
	for ; !out.done; line, err = in.Next() {
		out.line = in.N
		switch {
		case err != nil && !errors.Is(err, io.EOF):
			out.fail(err)
			if !errors.Is(err, ErrTooLong) {
				return
			}
		case len(bytes.TrimSpace(line)) > 0:
			readEntry(line, out)
		}
		if errors.Is(err, io.EOF) {
			return
		}
	}
}

// document reads one or more values of many lines. It is the reader of the decoder, and
// counts lines and the bytes of the entry.
type document struct {
	in    *bufio.Reader
	limit int
	left  int   // bytes that the present entry may still take
	line  int   // of the first byte
	ends  []int // offsets of line ends that the decoder has not passed
	taken int   // bytes read
}

// Read reads for the decoder, at most to the limit of the current entry.
func (d *document) Read(p []byte) (int, error) {
	if d.left <= 0 {
		return 0, fmt.Errorf("%w: the limit is %d bytes", ErrTooLong, d.limit)
	}
	n, err := d.in.Read(p[:min(len(p), d.left)])
	for i, ch := range p[:n] {
		if ch == '\n' {
			d.ends = append(d.ends, d.taken+i)
		}
	}
	d.taken += n
	d.left -= n
	return n, err
}

// entry begins a new entry at the position of dec and returns its line.
func (d *document) entry(dec *jsontext.Decoder) int {
	dec.PeekKind() // reads on until there is something
	next := d.taken - len(bytes.TrimLeft(dec.UnreadBuffer(), " \t\r\n,:"))
	passed := 0
	for passed < len(d.ends) && d.ends[passed] < next {
		passed++
	}
	d.ends = append(d.ends[:0], d.ends[passed:]...)
	d.line += passed
	d.left = d.limit
	return d.line
}

func (d *document) read(out *sink) {
	dec := jsontext.NewDecoder(d, jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
	for !out.done {
		out.line = d.entry(dec)
		err := d.value(dec, out)
		if errors.Is(err, io.EOF) {
			return
		}
		if err != nil {
			out.fail(syntax(err))
			return
		}
	}
}

// value reads one value at the top level: an array of entries, an export, or an entry.
func (d *document) value(dec *jsontext.Decoder, out *sink) error {
	switch dec.PeekKind() {
	case '[':
		return d.array(dec, out)
	case '{':
		if ahead, _ := d.in.Peek(exportHead); isExport(slices.Concat(dec.UnreadBuffer(), ahead)) { // at the end there is less
			return readExport(dec, out, func() int { return d.entry(dec) })
		}
	}
	v, err := dec.ReadValue()
	if err != nil {
		return err
	}
	readEntry(v, out)
	return nil
}

// exportStart matches the beginning of an OpenTelemetry export, which may be large and is
// read span by span.
var exportStart = regexp.MustCompile(`^\s*\{\s*"resource_?[sS]pans"`)

// exportHead is the number of bytes that exportStart is matched with.
const exportHead = 200

func isExport(b []byte) bool { return exportStart.Match(b[:min(len(b), exportHead)]) }

// array reads the elements of an array as entries, or as one session if they are
// messages.
func (d *document) array(dec *jsontext.Decoder, out *sink) error {
	if _, err := dec.ReadToken(); err != nil {
		return err
	}
	start := out.line
	var s messages
	for dec.PeekKind() != ']' {
		out.line = d.entry(dec)
		v, err := dec.ReadValue()
		if err != nil {
			return err
		}
		if role := roleOf(v); len(s.list) > 0 || role != "" {
			if s.add(v.Clone(), role); s.size > d.limit {
				return fmt.Errorf("%w: the limit is %d bytes", ErrTooLong, d.limit)
			}
			continue
		}
		if readEntry(v, out); out.done {
			return io.EOF
		}
	}
	if _, err := dec.ReadToken(); err != nil {
		return err
	}
	out.line = start
	s.expand(out)
	return nil
}

// syntax converts errors of the decoder, without their positions.
func syntax(err error) error {
	var bad *jsontext.SyntacticError
	switch {
	case errors.Is(err, ErrTooLong):
		return err
	case errors.Is(err, io.ErrUnexpectedEOF):
		return fmt.Errorf("%w: it ends in the middle", ErrSyntax)
	case errors.As(err, &bad):
		return fmt.Errorf("%w: %w", ErrSyntax, bad.Err)
	}
	return err
}
