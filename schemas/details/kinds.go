package details

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// isDetail reports whether a word is a number or an identifier.
func isDetail(word string) bool {
	lower, inner := false, false
	for i := range len(word) {
		kind := kinds[word[i]]
		switch {
		case kind == always || kind == upper && lower || kind == wildcard && len(word) > 1:
			return true
		case kind == dot:
			// The dots of "e.g." join single letters.
			inner = inner || i > 1
		case kind == wide:
			return isWideDetail(word)
		}
		lower = kind == small
	}
	return inner
}

// isPlain reports whether a word has letters alone, no capitals behind small ones, and so is no
// detail and has no parts.
func isPlain(word string) bool {
	lower := false
	for i := range len(word) {
		switch kinds[word[i]] {
		case small:
			lower = true
		case upper:
			if lower {
				return false
			}
		default:
			return false
		}
	}
	return word != ""
}

// The kinds of bytes as details are made of them.
const (
	small = iota + 1
	upper
	dot
	wildcard
	// always is a byte that makes any word a detail.
	always
	// wide is a part of a character that is not ASCII.
	wide
)

var kinds = func() (kinds [256]byte) {
	for c := range kinds {
		switch {
		case c >= utf8.RuneSelf:
			kinds[c] = wide
		case 'a' <= c && c <= 'z':
			kinds[c] = small
		case 'A' <= c && c <= 'Z':
			kinds[c] = upper
		case '0' <= c && c <= '9' || strings.IndexByte(`_/\@`, byte(c)) >= 0:
			kinds[c] = always
		}
	}
	kinds['.'], kinds['%'] = dot, wildcard
	return kinds
}()

// isWideDetail is isDetail for words with other characters than ASCII's.
func isWideDetail(word string) bool {
	lower, inner := false, false
	for i, r := range word {
		switch {
		case r == '_' || unicode.IsNumber(r):
			return true
		case unicode.IsUpper(r) && lower:
			return true
		case r == '/' || r == '\\' || r == '@' || r == '%' && len(word) > 1:
			return true
		case r == '.':
			inner = inner || i > 1
		}
		lower = unicode.IsLower(r)
	}
	return inner
}
