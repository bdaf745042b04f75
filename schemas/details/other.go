package details

import (
	"strings"
	"unicode"
)

// maxItem is the largest number of words of an item.
const maxItem = 3

// OtherItem reports whether two texts differ only in one item: a word that is replaced by the
// same other word everywhere, or a few words in one place. Words that come and go in rephrasing
// are no items.
func OtherItem(a, b string) bool {
	a, b = strip(a, b)
	x, y := wordsOf(a), wordsOf(b)
	if len(x) == 0 || len(y) == 0 {
		return false
	}
	return oneForAnother(x, y) || isItem(x) && isItem(y) && !shareAny(x, y)
}

// strip returns two texts without their common first and last words.
func strip(a, b string) (string, string) {
	from := 0
	for i := range min(len(a), len(b)) {
		if a[i] != b[i] {
			break
		}
		if !partOfWord(a[i]) {
			from = i + 1
		}
	}
	a, b = a[from:], b[from:]
	end := 0
	for i := 1; i <= min(len(a), len(b)) && a[len(a)-i] == b[len(b)-i]; i++ {
		if !partOfWord(a[len(a)-i]) {
			end = i
		}
	}
	return a[:len(a)-end], b[:len(b)-end]
}

// partOfWord reports whether a byte may be part of a word, as all bytes of other scripts may.
func partOfWord(c byte) bool {
	return c >= 0x80 || '0' <= c && c <= '9' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z'
}

func wordsOf(text string) []string {
	return strings.FieldsFunc(text, func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) })
}

// oneForAnother reports whether two lists of words are the same except that one word is
// replaced by the same other word in one or more places.
func oneForAnother(x, y []string) bool {
	if len(x) != len(y) {
		return false
	}
	of, other := "", ""
	for i := range x {
		switch {
		case strings.EqualFold(x[i], y[i]) || x[i] == of && y[i] == other:
		case of != "":
			return false
		default:
			of, other = x[i], y[i]
		}
	}
	return of != "" && isItem([]string{of}) && isItem([]string{other})
}

// isItem reports whether words may be an item.
func isItem(words []string) bool {
	for _, w := range words {
		if rephrasing[strings.ToLower(w)] {
			return false
		}
	}
	return len(words) <= maxItem
}

func shareAny(x, y []string) bool {
	for _, a := range x {
		for _, b := range y {
			if strings.EqualFold(a, b) {
				return true
			}
		}
	}
	return false
}

// rephrasing are words that come and go in rephrasing.
var rephrasing = set(`a actually again all also an and another any anyway as at attempt be but by can carefully check
	correct could did do does exactly finally first following for from have hello help hey hi i if in instead is it its
	just kindly let lets look maybe me more must my need next no not now of ok okay on once one only or our out over
	perhaps please possibly previous properly quickly really result retry see shall should simply so sorry still sure
	than thank thanks that the their them then there these they this those to too try us valid very want was we well
	were while will with would wrong yes yet you your`)
