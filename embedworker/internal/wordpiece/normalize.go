package wordpiece

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/cases"
	"golang.org/x/text/language"
	"golang.org/x/text/unicode/norm"
)

// normalizer is BERT's: each step as the tokenizer's file asks.
type normalizer struct {
	cleanText    bool // drop control characters, and make white space plain spaces
	spaceCJK     bool // put spaces around ideographs
	lowercase    bool
	stripAccents bool
}

// normalize returns the normalized text. Bytes that are not UTF-8 count as U+FFFD, which
// cleaning drops.
func (n *normalizer) normalize(text string) string {
	b, ascii := make([]byte, 0, len(text)+16), true
	for _, r := range text {
		switch {
		case r < utf8.RuneSelf:
			b = n.appendASCII(b, byte(r))
			continue
		case n.cleanText && isControl(r):
		case n.cleanText && isSpace(r):
			b = append(b, ' ')
		case n.spaceCJK && unicode.Is(ideographs, r):
			b = append(utf8.AppendRune(append(b, ' '), r), ' ')
		default:
			b = utf8.AppendRune(b, r)
		}
		ascii = false
	}
	if ascii {
		return string(b)
	}
	if n.lowercase {
		b = cases.Lower(language.Und).Bytes(b) // follows Unicode's rule for the final sigma
	}
	if !n.stripAccents {
		return string(b)
	}
	return strings.Map(func(r rune) rune {
		if r >= utf8.RuneSelf && unicode.Is(unicode.Mn, r) {
			return -1
		}
		return r
	}, norm.NFD.String(string(b)))
}

func (n *normalizer) appendASCII(b []byte, c byte) []byte {
	switch {
	case n.lowercase && 'A' <= c && c <= 'Z':
		return append(b, c+'a'-'A')
	case !n.cleanText || ' ' <= c && c < 0x7F:
		return append(b, c)
	case c == '\t' || c == '\n' || c == '\r':
		return append(b, ' ')
	}
	return b
}

// isControl reports whether cleaning drops a character outside of ASCII.
func isControl(r rune) bool {
	return r == utf8.RuneError || unicode.In(r, unicode.Cc, unicode.Cf, unicode.Co, unicode.Cs)
}

// isSpace reports whether a character is white space in ECMAScript.
func isSpace(r rune) bool { return unicode.IsSpace(r) && r != '\u0085' || r == '\uFEFF' }

// isPunct reports whether a character is a word of its own. BERT counts the symbols of ASCII
// as punctuation, too.
func isPunct(r rune) bool { return unicode.IsPunct(r) || r < utf8.RuneSelf && unicode.IsSymbol(r) }

// ideographs are the blocks of the original BERT code that the reference sees, which leaves
// out those beyond the basic plane.
var ideographs = &unicode.RangeTable{R16: []unicode.Range16{
	{Lo: 0x3400, Hi: 0x4DBF, Stride: 1},
	{Lo: 0x4E00, Hi: 0x9FFF, Stride: 1},
	{Lo: 0xF900, Hi: 0xFAFF, Stride: 1},
}}
