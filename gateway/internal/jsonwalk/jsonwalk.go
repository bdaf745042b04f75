// Package jsonwalk walks over a JSON text once, without building a tree: the
// caller descends into what interests it and the rest is skipped. Texts on which
// two parsers could disagree (duplicate names, invalid UTF-8, data behind the
// value) are errors.
//
// It works on a text that is in memory, hands out slices of it, and allocates only
// for objects with many members. It knows nothing of any message format.
package jsonwalk

import (
	"bytes"
	"errors"
	"fmt"
	"unicode/utf8"
)

// MaxDepth is how deep objects and arrays may nest: the same as for canonical
// digests, and far more than any request needs.
const MaxDepth = 512

// Errors that a text can cause. All say at which byte.
var (
	// ErrSyntax says that the text is no JSON.
	ErrSyntax = errors.New("invalid JSON")
	// ErrUTF8 says that a string is not valid UTF-8.
	ErrUTF8 = errors.New("invalid UTF-8")
	// ErrDuplicate says that an object has one name twice.
	ErrDuplicate = errors.New("duplicate name in object")
	// ErrDepth says that the text nests deeper than MaxDepth.
	ErrDepth = errors.New("JSON nests too deeply")
	// ErrTrailing says that something follows the value.
	ErrTrailing = errors.New("data after the JSON value")
	// ErrKind says that a value has not the type that its place demands.
	ErrKind = errors.New("unexpected JSON type")
)

// Walker stands before a value in a JSON text.
type Walker struct {
	text  []byte
	pos   int
	depth int
	names names
}

// Text walks over a whole text with f, which consumes its value.
func Text(text []byte, f func(*Walker) error) error {
	w := Walker{text: text}
	w.space()
	if err := w.value(func() error { return f(&w) }); err != nil {
		return err
	}
	if w.space(); w.pos < len(w.text) {
		return w.fault(ErrTrailing)
	}
	return nil
}

// value lets f consume the value that the walker stands before, and skips it if f
// did not.
func (w *Walker) value(f func() error) error {
	before := w.pos
	if err := f(); err != nil {
		return err
	}
	if w.pos == before {
		return w.Skip()
	}
	return nil
}

func (w *Walker) fault(err error) error { return fmt.Errorf("%w at byte %d", err, w.pos) }

// Kind is the kind of the value that the walker stands before: one of
// n f t " 0 { [, or 0 where none is.
func (w *Walker) Kind() byte {
	if w.pos >= len(w.text) {
		return 0
	}
	switch c := w.text[w.pos]; c {
	case 'n', 'f', 't', '"', '{', '[':
		return c
	case '-', '0', '1', '2', '3', '4', '5', '6', '7', '8', '9':
		return '0'
	default:
		return 0
	}
}

// Offset is the index of the byte that the walker stands before: the first one of
// a value that is still to be consumed, the one behind it afterwards.
func (w *Walker) Offset() int { return w.pos }

// Object calls member for each member of the value, which must be an object. What
// member does not consume is skipped. The name is valid until member returns.
func (w *Walker) Object(member func(name []byte) error) error {
	if err := w.open('{'); err != nil {
		return err
	}
	seen := w.names.open()
	if w.space(); w.next('}') {
		return w.close()
	}
	for {
		name, err := w.name()
		if err != nil {
			return err
		}
		if !w.names.add(seen, name) {
			return w.fault(ErrDuplicate)
		}
		if err := w.value(func() error { return member(name) }); err != nil {
			return err
		}
		w.space()
		switch {
		case w.next('}'):
			w.names.close(seen)
			return w.close()
		case !w.next(','):
			return w.fault(ErrSyntax)
		}
		w.space()
	}
}

// Array calls element for each element of the value, which must be an array. What
// element does not consume is skipped.
func (w *Walker) Array(element func() error) error {
	if err := w.open('['); err != nil {
		return err
	}
	if w.space(); w.next(']') {
		return w.close()
	}
	for {
		if err := w.value(element); err != nil {
			return err
		}
		w.space()
		switch {
		case w.next(']'):
			return w.close()
		case !w.next(','):
			return w.fault(ErrSyntax)
		}
		w.space()
	}
}

func (w *Walker) open(kind byte) error {
	if k := w.Kind(); k != kind {
		if k == 0 {
			return w.fault(ErrSyntax)
		}
		return fmt.Errorf("%w at byte %d: %c, want %c", ErrKind, w.pos, k, kind)
	}
	if w.depth >= MaxDepth {
		return w.fault(ErrDepth)
	}
	w.depth++
	w.pos++
	return nil
}

func (w *Walker) close() error {
	w.depth--
	return nil
}

// next consumes one byte if it is c.
func (w *Walker) next(c byte) bool {
	if w.pos < len(w.text) && w.text[w.pos] == c {
		w.pos++
		return true
	}
	return false
}

// space consumes white space.
func (w *Walker) space() {
	for w.pos < len(w.text) {
		switch w.text[w.pos] {
		case ' ', '\t', '\n', '\r':
			w.pos++
		default:
			return
		}
	}
}

// name consumes a member's name and the colon, and returns the name unquoted.
func (w *Walker) name() ([]byte, error) {
	start := w.pos
	if w.Kind() != '"' {
		return nil, w.fault(ErrSyntax)
	}
	escaped, err := w.str()
	if err != nil {
		return nil, err
	}
	name := w.text[start+1 : w.pos-1]
	if escaped {
		name = appendUnescaped(nil, name)
		if bytes.Contains(name, replacement) { // two lone surrogates would look the same
			return nil, w.fault(ErrUTF8)
		}
	}
	w.space()
	if !w.next(':') {
		return nil, w.fault(ErrSyntax)
	}
	w.space()
	return name, nil
}

var replacement = []byte(string(utf8.RuneError))

// Raw consumes the value and returns its text.
func (w *Walker) Raw() ([]byte, error) {
	start := w.pos
	err := w.Skip()
	return w.text[start:w.pos], err
}

// String consumes the value and returns it if it is a string, else "".
func (w *Walker) String() (string, error) {
	b, err := w.Bytes()
	return string(b), err
}

// Bytes consumes the value and returns its content if it is a string, else nil. The
// slice is part of the text where the string has no escapes.
func (w *Walker) Bytes() ([]byte, error) {
	if w.Kind() != '"' {
		return nil, w.Skip()
	}
	start := w.pos
	escaped, err := w.str()
	if err != nil {
		return nil, err
	}
	content := w.text[start+1 : w.pos-1]
	if escaped {
		content = appendUnescaped(nil, content)
	}
	return content, nil
}

// Bool consumes the value and says whether it is true.
func (w *Walker) Bool() (bool, error) {
	yes := w.Kind() == 't'
	return yes, w.Skip()
}
