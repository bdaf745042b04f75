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
		if !isNegation(word, "'t") || !known(word) {
			t.Errorf("%q is no negation", word)
		}
	}
}

func TestSmallNumbersAreTheirDigits(t *testing.T) {
	t.Parallel()
	for word, want := range map[string]string{
		"two": "2", "Three": "3", "four": "4", "five": "5", "six": "6", "SEVEN": "7", "eight": "8", "nine": "9", "ten": "10", "eleven": "11", "twelve": "12",
		"second": "2", "third": "3", "fourth": "4", "fifth": "5", "sixth": "6", "seventh": "7", "eighth": "8", "ninth": "9", "tenth": "10",
		"one": "", "first": "", "the": "", "twos": "", "thirteen": "",
	} {
		if got := spelledOut(word); got != want {
			t.Errorf("%q is %q, want %q", word, got, want)
		}
	}
}
