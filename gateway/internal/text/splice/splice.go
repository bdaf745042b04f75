// Package splice changes single values of a valid JSON text and leaves all other bytes
// unchanged. It knows no message format.
package splice

import (
	"bytes"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/unloop/unloop/gateway/internal/text/jsonwalk"
)

// Place is the half-open range of a value in a text. The zero Place is that of no value.
type Place struct{ From, To int }

// Value consumes the walker's next value and returns its place.
func Value(w *jsonwalk.Walker) (Place, error) { return Around(w, w.Skip) }

// Around returns the place of the walker's next value, which read consumes.
func Around(w *jsonwalk.Walker, read func() error) (Place, error) {
	from := w.Offset()
	err := read()
	return Place{from, w.Offset()}, err
}

// Found reports whether the place is that of a value.
func (p Place) Found() bool { return p.To > p.From }

// Kind returns the first byte of the value, and 0 if there is none.
func (p Place) Kind(text []byte) byte {
	if !p.Found() {
		return 0
	}
	return text[p.From]
}

// Array returns a JSON array of elements that are JSON.
func Array(elements ...[]byte) []byte {
	return slices.Concat([]byte{'['}, bytes.Join(elements, []byte{','}), []byte{']'})
}

// Quote returns s as a JSON string. Invalid UTF-8 becomes U+FFFD.
func Quote(s string) []byte {
	quoted, _ := jsontext.AppendQuote(nil, strings.ToValidUTF8(s, "\ufffd")) // only invalid UTF-8 is an error
	return quoted
}

// between separates an added text from the one before or after it.
const between = "\n\n"

// PrependText inserts s and a blank line at the beginning of the string at p.
func PrependText(text []byte, p Place, s string) []byte {
	if p.To-p.From > len(`""`) {
		s += between
	}
	return insert(text, p.From+1, unquoted(s))
}

// AppendText inserts a blank line and s at the end of the string at p.
func AppendText(text []byte, p Place, s string) []byte {
	if p.To-p.From > len(`""`) {
		s = between + s
	}
	return insert(text, p.To-1, unquoted(s))
}

// unquoted returns s as the content of a JSON string.
func unquoted(s string) []byte {
	quoted := Quote(s)
	return quoted[1 : len(quoted)-1]
}

// PrependElement inserts an element at the beginning of the array at p.
func PrependElement(text []byte, p Place, element []byte) []byte {
	if !isEmpty(text, p) {
		element = append(slices.Clone(element), ',')
	}
	return insert(text, p.From+1, element)
}

// AppendElement inserts an element at the end of the array at p.
func AppendElement(text []byte, p Place, element []byte) []byte {
	if !isEmpty(text, p) {
		element = append([]byte{','}, element...)
	}
	return insert(text, p.To-1, element)
}

// AddMember inserts a member at the beginning of the object at p, which must have no
// member of that name.
func AddMember(text []byte, p Place, name string, value []byte) []byte {
	member := append(append(Quote(name), ':'), value...)
	return PrependElement(text, p, member)
}

// Replace replaces the value at p.
func Replace(text []byte, p Place, value []byte) []byte {
	out := make([]byte, 0, len(text)+len(value))
	out = append(out, text[:p.From]...)
	out = append(out, value...)
	return append(out, text[p.To:]...)
}

// isEmpty reports whether the array or object at p has no elements or members.
func isEmpty(text []byte, p Place) bool {
	return len(bytes.TrimSpace(text[p.From+1:p.To-1])) == 0
}

func insert(text []byte, at int, added []byte) []byte {
	return Replace(text, Place{at, at}, added)
}
