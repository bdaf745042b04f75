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
		k := kinds[word[i]]
		switch {
		case k == always || k == upper && lower || k == wildcard && len(word) > 1:
			return true
		case k == dot:
			// The dots of "e.g." join single letters.
			inner = inner || i > 1
		case k == wide:
			return isWideDetail(word)
		}
		lower = k == small
	}
	return inner
}

// plainPart returns a word without a punctuation mark at its end if only letters are left, with
// no capital after a small one: such a word is no detail and has no parts. It returns "" for
// other words. of are the kinds of the word's bytes.
func plainPart(word string, of kind) string {
	switch {
	case of == small:
		return word
	case of&(always|wildcard) != 0:
		return ""
	}
	if k := kinds[word[len(word)-1]]; k&(dot|dash|colon) != 0 {
		word = word[:len(word)-1]
	}
	lower := false
	for i := range len(word) {
		switch k := kinds[word[i]]; {
		case k == small:
			lower = true
		case k != upper || lower:
			return ""
		}
	}
	return word
}

// kind is a class of bytes in words and details, or a set of classes. It is 0 for ASCII
// characters that are in no word, and negative for parts of other characters.
type kind int8

const (
	small kind = 1 << iota
	upper
	dot
	dash
	colon
	wildcard
	// always is a byte that makes any word a detail.
	always
	// wide is a part of a character that is not ASCII.
	wide kind = -128
	// mixed are all kinds.
	mixed kind = -1
)

var kinds = func() (kinds [256]kind) {
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
	kinds['.'], kinds['%'], kinds[':'], kinds['-'] = dot, wildcard, colon, dash
	return kinds
}()

// isWideDetail is isDetail for words that are not ASCII.
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
	if !known(word) {
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
	switch strings.Trim(first(after), punctuation) {
	case "time", "times", "attempt", "attempts", "try", "tries":
		return true
	}
	return false
}

// lengths is a filter for negations, small numbers and attempts: the lengths of these words as
// bit sets, by first and last letter.
var lengths = func() (lengths [32][32]uint16) {
	for word := range strings.FieldsSeq(`not no never cannot without neither nor isnt arent wasnt werent dont doesnt didnt cant
		couldnt wont wouldnt shouldnt hasnt havent hadnt isn aren wasn weren don doesn didn can couldn won wouldn shouldn hasn
		haven hadn ain two second three third four fourth five fifth six sixth seven seventh eight eighth nine ninth ten tenth
		eleven twelve attempt attempts try retry retries`) {
		n := len(word)
		of := &lengths[word[0]&31][word[n-1]&31]
		*of |= 1 << n
		if strings.Contains(word, "i") { // which is one byte more as a capital with a dot
			*of |= 1 << (n + 1)
		}
	}
	return lengths
}()

// known reports whether a word may be a negation, a small number or an attempt. Nearly all
// other words differ from these in their first letter, last letter or length.
func known(word string) bool {
	n := len(word)
	return n > 0 && lengths[word[0]&31][word[n-1]&31]>>n&1 != 0
}
