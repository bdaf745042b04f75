package details

import "strings"

// reach is how many words after a negation are searched for the negated one.
const reach = 4

// negations follows a text word by word.
type negations struct{ left int }

// next takes the next word and the text after it, and returns the detail of a word that is
// negated, or "".
func (n *negations) next(word, after string) string {
	switch {
	case len(word) == 0 || len(word) > longestWord:
		n.left = 0
		return ""
	case n.left == 0 && !known(word):
		return ""
	}
	var room [longestWord]byte
	lower := room[:0]
	for i := range len(word) {
		c := word[i]
		if 'A' <= c && c <= 'Z' {
			c += 'a' - 'A'
		}
		lower = append(lower, c)
	}
	switch {
	case isNegation(string(lower), after):
		n.left = reach
		return ""
	case n.left == 0:
		return ""
	case skipped[string(lower)] || string(lower) == "t":
		n.left--
		return ""
	}
	n.left = 0
	if vague[string(lower)] {
		return ""
	}
	return "not " + stem(string(lower))
}

// longestWord is the length of the longest word that may be negated, in bytes.
const longestWord = 40

// isNegation reports whether a word is a negation: not, no, never and the like, or a
// contraction with n't.
func isNegation(word, after string) bool {
	switch word {
	case "not", "no", "never", "cannot", "without", "neither", "nor",
		"isnt", "arent", "wasnt", "werent", "dont", "doesnt", "didnt", "cant", "couldnt", "wont", "wouldnt", "shouldnt", "hasnt", "havent", "hadnt":
		return true
	case "isn", "aren", "wasn", "weren", "don", "doesn", "didn", "can", "couldn", "won", "wouldn", "shouldn", "hasn", "haven", "hadn", "ain":
		return strings.HasPrefix(after, "'t") || strings.HasPrefix(after, "’t")
	}
	return false
}

// skipped are words between a negation and the word that it negates.
var skipped = set(`a an the any all be been being is are was were am have has had do does did to really very quite yet even
	just only longer more such so too much it its this that these those there of in on at for by with from as and or still
	actually currently able going you we i they he she me us him her them your our my their his`)

// vague are words whose negation says nothing about the task; they occur in complaints
// about an answer.
var vague = set(`valid correct right parse parsed parseable work works worked working ok okay good enough sure know think want need
	answer output response result results format json xml yaml text error errors problem worry matter`)

func set(words string) map[string]bool {
	out := make(map[string]bool)
	for word := range strings.FieldsSeq(words) {
		out[word] = true
	}
	return out
}

// stem removes the commonest endings of an English word.
func stem(word string) string {
	const least = 3 // bytes that must be left
	for _, ending := range [...]string{"ing", "ed", "es", "s", "e"} {
		if len(word) >= least+len(ending) && strings.HasSuffix(word, ending) {
			return word[:len(word)-len(ending)]
		}
	}
	return word
}
