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

// spelledOut returns the digits of a small number in English, or "". One and
// first are left out: they are more often no numbers.
func spelledOut(word string) string {
	if len(word) < 3 || len(word) > 7 {
		return ""
	}
	switch word[0] | 0x20 {
	case 't', 'f', 's', 'e', 'n':
	default:
		return ""
	}
	switch strings.ToLower(word) { // a tenth of the time of a map
	case "two", "second":
		return "2"
	case "three", "third":
		return "3"
	case "four", "fourth":
		return "4"
	case "five", "fifth":
		return "5"
	case "six", "sixth":
		return "6"
	case "seven", "seventh":
		return "7"
	case "eight", "eighth":
		return "8"
	case "nine", "ninth":
		return "9"
	case "ten", "tenth":
		return "10"
	case "eleven":
		return "11"
	case "twelve":
		return "12"
	}
	return ""
}

// isCount reports whether a number counts attempts, as in "a third time".
func isCount(after string) bool {
	word, _ := next(after[:min(len(after), 16)])
	switch strings.Trim(word, punctuation) {
	case "time", "times", "attempt", "attempts", "try", "tries":
		return true
	}
	return false
}
