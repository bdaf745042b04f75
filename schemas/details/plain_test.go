package details

import (
	"testing"

	"pgregory.net/rapid"
)

func TestPlainWordsAreDetailsAsWideOnesAre(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		word := rapid.StringMatching(`[a-cA-C0-1_./\\@%:é-]{0,6}`).Draw(t, "word")
		if got, want := isDetail(word), isWideDetail(word); got != want {
			t.Fatalf("%q: %v, want %v", word, got, want)
		}
	})
}

func TestNegationsBeginAsTheirListSays(t *testing.T) {
	t.Parallel()
	for _, word := range []string{
		"not", "no", "never", "cannot", "without", "neither", "nor", "isnt", "arent", "wasnt", "werent", "dont", "doesnt", "didnt", "cant",
		"couldnt", "wont", "wouldnt", "shouldnt", "hasnt", "havent", "hadnt", "isn", "aren", "wasn", "weren", "don", "doesn", "didn", "can",
		"couldn", "won", "wouldn", "shouldn", "hasn", "haven", "hadn", "ain",
	} {
		if !isNegation(word, "'t") || !mayNegate(word) {
			t.Errorf("%q is no negation", word)
		}
	}
	for digits := range numbers {
		if spelledOut(digits) == "" {
			t.Errorf("%q is no number", digits)
		}
	}
}
