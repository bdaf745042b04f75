// Package excerpt cuts a short excerpt out of an exchange, for people who read
// events, and masks what looks like a secret in it.
//
// It knows texts alone: not whose they are, nor which policies want excerpts.
package excerpt

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/unloop/unloop/schemas/event"
)

const (
	// window is how much of the end of a text is read, in bytes: enough for the
	// excerpt after secrets in it were masked, and quick to search.
	window = 2 << 10
	// between stands between what was said and what it was answered.
	between = " ⇒ "
	cut     = "…"
)

// Of returns the ends of what an agent said and of what it was answered, on
// one line, with what looks like a secret masked. Either text may be empty. It
// has at most event.MaxExcerpt runes and is valid UTF-8.
func Of(said, answered string) string {
	said, answered = clean(said), clean(answered)
	room := event.MaxExcerpt
	if said == "" || answered == "" {
		return last(said+answered, room)
	}
	room -= utf8.RuneCountInString(between)
	// What one half leaves, the other takes.
	ofSaid := max(room/2, room-utf8.RuneCountInString(answered))
	said = last(said, ofSaid)
	return said + between + last(answered, room-utf8.RuneCountInString(said))
}

// clean is the end of a text without secrets, control characters and line ends.
func clean(text string) string {
	text = mask(end(text))
	return strings.Join(strings.FieldsFunc(strings.ToValidUTF8(text, string(utf8.RuneError)), func(r rune) bool {
		return unicode.IsSpace(r) || !unicode.IsPrint(r)
	}), " ")
}

// end is the last window of a text. A word that it cuts goes whole: the rest of
// a secret does not look like one.
func end(text string) string {
	if len(text) <= window {
		return text
	}
	text = text[len(text)-window:]
	return cut + strings.TrimLeftFunc(text, func(r rune) bool { return r == utf8.RuneError || r < utf8.RuneSelf && isToken(byte(r)) })
}

// isToken says whether a character may be part of a key or token.
func isToken(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || strings.IndexByte("-_.+/~", c) >= 0
}

// last is the end of a text of at most so many runes.
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
