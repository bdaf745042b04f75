// Package jsonwalk reads a JSON text in one pass, without building a tree: the caller
// descends into the values that it needs, and all others are skipped. Texts that two
// parsers could read differently (duplicate names, invalid UTF-8, trailing data) are
// errors.
//
// It exists beside jsontext for three reasons. It returns slices of the text, where a
// jsontext.Decoder copies; BenchmarkSkip compares the two. It accepts lone surrogates in
// strings, which JavaScript clients send and jsontext refuses, but no other invalid UTF-8.
// And it returns the offset of every value, at which package splice changes a body.
//
// It allocates only for objects with many members. It knows no message format.
package jsonwalk

import (
	"bytes"
	"errors"
	"fmt"
	"unicode/utf8"
)

// MaxDepth is the maximum nesting of objects and arrays, the same as for canonical digests.
const MaxDepth = 512

// Errors that a text can cause. Each is wrapped with the offset at which it occurred.
var (
	// ErrSyntax: the text is not JSON.
	ErrSyntax = errors.New("invalid JSON")
	// ErrUTF8: a string is not valid UTF-8.
	ErrUTF8 = errors.New("invalid UTF-8")
	// ErrDuplicate: an object has two members with the same name.
	ErrDuplicate = errors.New("duplicate name in object")
	// ErrDepth: the text nests deeper than MaxDepth.
	ErrDepth = errors.New("JSON nests too deeply")
	// ErrTrailing: the value is followed by more data.
	ErrTrailing = errors.New("data after the JSON value")
	// ErrKind: a value does not have the type that the caller expects.
	ErrKind = errors.New("unexpected JSON type")
)

// Walker is a position in a JSON text, before a value.
type Walker struct {
	text  []byte
	pos   int
	depth int
	names names
}

// Text reads a whole text. A value that f does not consume is skipped.
func Text(text []byte, f func(*Walker) error) error {
	w := Walker{text: text}
	w.space()
	before := w.pos
	err := f(&w)
	if err == nil && w.pos == before {
		err = w.Skip()
	}
	if err != nil {
		return err
	}
	if w.space(); w.pos < len(w.text) {
		return w.fault(ErrTrailing)
	}
	return nil
}

func (w *Walker) fault(err error) error { return fmt.Errorf("%w at byte %d", err, w.pos) }

// Kind returns the kind of the next value: one of n f t " 0 { [, or 0 if there is none.
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

// Offset returns the offset of the next byte: before a value is consumed that of its first
// byte, and then that of the byte after it.
func (w *Walker) Offset() int { return w.pos }

// Object calls member for each member of the next value, which must be an object. A
// member's value that the callback does not consume is skipped; a nil callback skips
// all of them. The name is valid until the callback returns.
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
		before := w.pos
		if member != nil {
			err = member(name)
		}
		if err == nil && w.pos == before {
			err = w.Skip()
		}
		if err != nil {
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

// Array calls element for each element of the next value, which must be an array. An
// element that the callback does not consume is skipped; a nil callback skips all.
func (w *Walker) Array(element func() error) error { return w.ArrayAfter(0, element) }

// ArrayAfter is Array for the elements after an offset, which is the end of an element; 0
// stands for all elements. What is before the offset is not read.
func (w *Walker) ArrayAfter(offset int, element func() error) error {
	if err := w.open('['); err != nil {
		return err
	}
	switch w.space(); {
	case offset > 0:
		w.pos = offset
		if more, err := w.another(); !more {
			return err
		}
	case w.next(']'):
		return w.close()
	}
	for {
		var err error
		before := w.pos
		if element != nil {
			err = element()
		}
		if err == nil && w.pos == before {
			err = w.Skip()
		}
		if err != nil {
			return err
		}
		if more, err := w.another(); !more {
			return err
		}
	}
}

// another consumes the comma after an element of an array, or the array's end. It reports
// whether there is another element.
func (w *Walker) another() (more bool, err error) {
	w.space()
	switch {
	case w.next(']'):
		return false, w.close()
	case !w.next(','):
		return false, w.fault(ErrSyntax)
	}
	w.space()
	return true, nil
}

// Last reports whether the consumed element of an array is the last one.
func (w *Walker) Last() bool {
	ahead := Walker{text: w.text, pos: w.pos}
	ahead.space()
	return ahead.next(']')
}

// Members is Object, except that it skips a value of another type.
func (w *Walker) Members(member func(name []byte) error) error {
	if w.Kind() != '{' {
		return w.Skip()
	}
	return w.Object(member)
}

// Elements is Array, except that it skips a value of another type.
func (w *Walker) Elements(element func() error) error {
	if w.Kind() != '[' {
		return w.Skip()
	}
	return w.Array(element)
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

// name consumes a member's name and the colon. It returns the name without quotes and
// escapes.
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

// Raw consumes the next value and returns its JSON text.
func (w *Walker) Raw() ([]byte, error) {
	start := w.pos
	err := w.Skip()
	return w.text[start:w.pos], err
}

// String consumes the next value. It returns the content of a string, and "" for any
// other type.
func (w *Walker) String() (string, error) {
	b, err := w.Bytes()
	return string(b), err
}

// Bytes consumes the next value. It returns the content of a string, and nil for any
// other type. The slice is part of the text if the string has no escapes.
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

// Bool consumes the next value and reports whether it is true.
func (w *Walker) Bool() (bool, error) {
	yes := w.Kind() == 't'
	return yes, w.Skip()
}
