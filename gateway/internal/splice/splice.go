// Package splice changes single values of a JSON text and leaves every other byte
// as it was. It knows JSON, and no message format; the text must be valid.
package splice

import (
	"bytes"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/unloop/unloop/gateway/internal/jsonwalk"
)

// Place is where a value stands in a text. The zero Place is nowhere.
type Place struct{ From, To int }

// Value consumes the walker's value and returns its place.
func Value(w *jsonwalk.Walker) (Place, error) {
	from := w.Offset()
	err := w.Skip()
	return Place{from, w.Offset()}, err
}

// Found says whether the place is one.
func (p Place) Found() bool { return p.To > p.From }

// Kind is the first byte of the value; 0 if there is none.
func (p Place) Kind(text []byte) byte {
	if !p.Found() {
		return 0
	}
	return text[p.From]
}

// Quote returns s as a JSON string.
func Quote(s string) []byte {
	quoted, err := jsontext.AppendQuote(nil, strings.ToValidUTF8(s, "\ufffd"))
	if err != nil {
		return []byte(`""`) // only invalid UTF-8 is an error
	}
	return quoted
}

// between separates a text from another that it was added to.
const between = `\n\n`

// PrependText puts s, and a blank line, before the string at p.
func PrependText(text []byte, p Place, s string) []byte {
	quoted := Quote(s)
	added := quoted[1 : len(quoted)-1]
	if p.To-p.From > 2 {
		added = append(slices.Clone(added), between...)
	}
	return insert(text, p.From+1, added)
}

// AppendText puts s behind the string at p, after a blank line.
func AppendText(text []byte, p Place, s string) []byte {
	quoted := Quote(s)
	added := quoted[1 : len(quoted)-1]
	if p.To-p.From > 2 {
		added = append([]byte(between), added...)
	}
	return insert(text, p.To-1, added)
}

// PrependElement puts an element before those of the array at p.
func PrependElement(text []byte, p Place, element []byte) []byte {
	if !isEmpty(text, p) {
		element = append(slices.Clone(element), ',')
	}
	return insert(text, p.From+1, element)
}

// AppendElement puts an element behind those of the array at p.
func AppendElement(text []byte, p Place, element []byte) []byte {
	if !isEmpty(text, p) {
		element = append([]byte{','}, element...)
	}
	return insert(text, p.To-1, element)
}

// AddMember puts a member before those of the object at p, which has none of that
// name.
func AddMember(text []byte, p Place, name string, value []byte) []byte {
	member := append(append(Quote(name), ':'), value...)
	return PrependElement(text, p, member)
}

// Replace puts another value into p.
func Replace(text []byte, p Place, value []byte) []byte {
	out := make([]byte, 0, len(text)+len(value))
	out = append(out, text[:p.From]...)
	out = append(out, value...)
	return append(out, text[p.To:]...)
}

// isEmpty says whether an array or object has nothing in it.
func isEmpty(text []byte, p Place) bool {
	return len(bytes.TrimSpace(text[p.From+1:p.To-1])) == 0
}

func insert(text []byte, at int, added []byte) []byte {
	return Replace(text, Place{at, at}, added)
}
