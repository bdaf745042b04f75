package tree

import (
	"errors"
	"fmt"

	"github.com/unloop/unloop/gateway/internal/text/splice"
)

// ErrNoPlace reports that a body has no place for a hint.
var ErrNoPlace = errors.New("no place for a hint")

// NoPlace returns an ErrNoPlace with its reason.
func NoPlace(reason string) error { return fmt.Errorf("%w: %s", ErrNoPlace, reason) }

// Append puts a text behind the newest content of a user or tool: behind a string, or
// into a list as a part of the given type.
func (t *Tree) Append(partType, text string) ([]byte, error) {
	switch t.Newest.Kind(t.Body) {
	case '"':
		return splice.AppendText(t.Body, t.Newest, text), nil
	case '[':
		return splice.AppendElement(t.Body, t.Newest, TextPart(partType, text)), nil
	default:
		return nil, NoPlace("the newest message has no text")
	}
}

// Prepend puts a text before the content of the leading system message: before a
// string, into a list as its first part, or in the place of null.
func (t *Tree) Prepend(partType, text string) ([]byte, error) {
	if t.Leading.Kind(t.Body) == '[' {
		return splice.PrependElement(t.Body, t.Leading, TextPart(partType, text)), nil
	}
	return t.prepend(t.Leading, text, "the system message has no text")
}

// Instruct puts a text before the instructions beside the messages: a string in the
// member of that name, which may be null or absent.
func (t *Tree) Instruct(member, text string) ([]byte, error) {
	if !t.System.Found() {
		return splice.AddMember(t.Body, t.Object, member, splice.Quote(text)), nil
	}
	return t.prepend(t.System, text, member+" is no text")
}

// prepend puts a text before a string, or in the place of null.
func (t *Tree) prepend(at splice.Place, text, otherwise string) ([]byte, error) {
	switch at.Kind(t.Body) {
	case '"':
		return splice.PrependText(t.Body, at, text), nil
	case 'n':
		return splice.Replace(t.Body, at, splice.Quote(text)), nil
	default:
		return nil, NoPlace(otherwise)
	}
}

// TextPart returns a part of a content list that holds a text.
func TextPart(partType, text string) []byte {
	return fmt.Appendf(nil, `{"type":%s,"text":%s}`, splice.Quote(partType), splice.Quote(text))
}
