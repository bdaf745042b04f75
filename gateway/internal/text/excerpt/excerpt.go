// Package excerpt shortens an exchange for people who read events, and masks everything
// that looks like a secret. It knows no user, request or policy.
package excerpt

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/unloop/unloop/schemas/event"
)

const (
	// window is the number of bytes at the end of a text that are read: enough for an
	// excerpt with masked secrets, and quick to search.
	window = 2 << 10
	// between separates the agent's text from the answer.
	between = " ⇒ "
	cut     = "…"
)

// Of returns the ends of an agent's text and of the answer to it, on one line, without
// what looks like a secret. Either text may be empty. The excerpt has at most
// event.MaxExcerpt runes and is valid UTF-8.
func Of(said, answered string) string {
	said, answered = clean(said), clean(answered)
	room := event.MaxExcerpt
	if said == "" || answered == "" {
		return last(said+answered, room)
	}
	room -= utf8.RuneCountInString(between)
	// Each half may use the room that the other one does not need.
	ofSaid := max(room/2, room-utf8.RuneCountInString(answered))
	said = last(said, ofSaid)
	return said + between + last(answered, room-utf8.RuneCountInString(said))
}

// clean returns the end of a text without secrets, control characters and line ends.
func clean(text string) string {
	text = Mask(end(text))
	return strings.Join(strings.FieldsFunc(strings.ToValidUTF8(text, string(utf8.RuneError)), func(r rune) bool {
		return unicode.IsSpace(r) || !unicode.IsPrint(r)
	}), " ")
}

// end returns the last window of a text, without the rest of a word that was cut: the rest
// of a secret does not look like one.
func end(text string) string {
	if len(text) <= window {
		return text
	}
	text = text[len(text)-window:]
	return cut + strings.TrimLeftFunc(text, func(r rune) bool { return r == utf8.RuneError || r < utf8.RuneSelf && isToken(byte(r)) })
}

// isToken reports whether a character may be part of a key or token.
func isToken(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || strings.IndexByte("-_.+/~", c) >= 0
}

// last returns the end of a text, of at most the given number of runes.
func last(text string, runes int) string {
	over := utf8.RuneCountInString(text) - runes
	if over <= 0 {
		return text
	}
	for range over + 1 {
		_, size := utf8.DecodeRuneInString(text)
		text = text[size:]
	}
	return cut + text
}
