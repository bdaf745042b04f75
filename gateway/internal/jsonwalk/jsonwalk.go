// Package jsonwalk walks over a JSON text once, without building a tree: the
// caller descends into what interests it and skips the rest. Texts on which two
// parsers could disagree (duplicate keys, invalid UTF-8, trailing data) are
// errors.
//
// It knows nothing of any message format.
package jsonwalk

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/go-json-experiment/json/jsontext"
)

// Errors that the walked text can cause, beside jsontext's own.
var (
	// ErrTrailing says that something follows the value.
	ErrTrailing = errors.New("data after the JSON value")
	// ErrKind says that a value has not the type that its place demands.
	ErrKind = errors.New("unexpected JSON type")
)

// Walker stands somewhere in a JSON text.
type Walker struct {
	dec  *jsontext.Decoder
	name []byte
}

var decoders = sync.Pool{New: func() any { return jsontext.NewDecoder(bytes.NewReader(nil)) }}

// Text walks over a whole text with f, which must consume exactly one value.
// The slices that f gets point into the text.
func Text(text []byte, f func(*Walker) error) error {
	dec := decoders.Get().(*jsontext.Decoder)
	defer decoders.Put(dec)
	dec.Reset(bytes.NewBuffer(text))
	if err := f(&Walker{dec: dec}); err != nil {
		return err
	}
	if _, err := dec.ReadToken(); !errors.Is(err, io.EOF) {
		return ErrTrailing
	}
	return nil
}

// Kind is the kind of the next value: one of n f t " 0 { [.
func (w *Walker) Kind() jsontext.Kind { return w.dec.PeekKind() }

// Object calls member for each member of the next value, which must be an
// object; member must consume the value. The name is valid until it returns.
func (w *Walker) Object(member func(name []byte) error) error {
	if err := w.open('{'); err != nil {
		return err
	}
	for w.dec.PeekKind() != '}' {
		raw, err := w.dec.ReadValue()
		if err != nil {
			return err
		}
		name := raw[1 : len(raw)-1]
		if bytes.IndexByte(name, '\\') >= 0 {
			if name, err = jsontext.AppendUnquote(nil, raw); err != nil {
				return err
			}
		}
		if err := member(name); err != nil {
			return err
		}
	}
	_, err := w.dec.ReadToken()
	return err
}

// Array calls element for each element of the next value, which must be an
// array; element must consume it.
func (w *Walker) Array(element func() error) error {
	if err := w.open('['); err != nil {
		return err
	}
	for w.dec.PeekKind() != ']' {
		if err := element(); err != nil {
			return err
		}
	}
	_, err := w.dec.ReadToken()
	return err
}

func (w *Walker) open(kind jsontext.Kind) error {
	tok, err := w.dec.ReadToken()
	if err != nil {
		return err
	}
	if tok.Kind() != kind {
		return fmt.Errorf("%w at byte %d: %s, want %s", ErrKind, w.dec.InputOffset(), tok.Kind(), kind)
	}
	return nil
}

// Raw consumes the next value and returns its text.
func (w *Walker) Raw() ([]byte, error) { return w.dec.ReadValue() }

// Skip consumes the next value.
func (w *Walker) Skip() error { return w.dec.SkipValue() }

// String consumes the next value and returns it if it is a string, else "".
func (w *Walker) String() (string, error) {
	text, err := w.AppendString(nil)
	return string(text), err
}

// AppendString consumes the next value and appends it to dst if it is a
// string.
func (w *Walker) AppendString(dst []byte) ([]byte, error) {
	raw, err := w.dec.ReadValue()
	if err != nil || raw.Kind() != '"' {
		return dst, err
	}
	return jsontext.AppendUnquote(dst, raw)
}

// Bool consumes the next value and says whether it is true.
func (w *Walker) Bool() (bool, error) {
	raw, err := w.dec.ReadValue()
	return raw.Kind() == 't', err
}
