// Package wordpiece splits text into BERT's WordPiece tokens, with the ids that Hugging
// Face's tokenizers give. Where those differ among themselves (on ideographs beyond
// Unicode's basic plane), it agrees with the JavaScript one.
//
// It ignores the padding and truncation that a tokenizer's file asks for: the caller decides.
package wordpiece

import (
	"regexp"
	"unicode/utf8"
)

// Tokenizer turns text into token ids. It is safe for concurrent use.
type Tokenizer struct {
	norm normalizer
	// words are the vocabulary, and pieces its entries that continue a word, without their
	// prefix. longest is the length of the longest entry in bytes.
	words, pieces map[string]int32
	longest       int
	maxWord       int // longest word that is looked up, in characters
	unk, pad      int32
	before, after []int32 // special tokens around a text
	raw           added   // found in the text as it came
	normalized    added   // found after normalization
}

// added are the added tokens, such as [SEP], that are found in a text before it is split into
// words: the longest one at the first place where one begins.
type added struct {
	pattern *regexp.Regexp // nil for no tokens
	ids     map[string]int32
}

// Append adds the ids of the text's tokens to dst, without the special tokens
// that a model wants around them.
func (t *Tokenizer) Append(dst []int32, text string) []int32 {
	return t.raw.split(dst, text, func(dst []int32, plain string) []int32 {
		return t.normalized.split(dst, t.norm.normalize(plain), t.appendWords)
	})
}

// Around returns the special tokens that go before and after a text's ids.
func (t *Tokenizer) Around() (before, after []int32) { return t.before, t.after }

// Pad returns the id that fills a row up.
func (t *Tokenizer) Pad() int32 { return t.pad }

// split adds the ids of the added tokens in a text to dst, and has appendPlain add those of
// the text between them.
func (a *added) split(dst []int32, text string, appendPlain func([]int32, string) []int32) []int32 {
	if a.pattern == nil {
		return appendPlain(dst, text)
	}
	for {
		at := a.pattern.FindStringIndex(text)
		if at == nil {
			return appendPlain(dst, text)
		}
		dst = append(appendPlain(dst, text[:at[0]]), a.ids[text[at[0]:at[1]]])
		text = text[at[1]:]
	}
}

// appendWords splits normalized text at white space and around punctuation.
func (t *Tokenizer) appendWords(dst []int32, text string) []int32 {
	start := 0
	for i, r := range text {
		space := isSpace(r)
		if !space && !isPunct(r) {
			continue
		}
		dst = t.appendWord(dst, text[start:i])
		start = i + utf8.RuneLen(r)
		if !space {
			dst = t.appendWord(dst, text[i:start])
		}
	}
	return t.appendWord(dst, text[start:])
}

// appendWord adds the longest pieces of a word from the left, or the unknown token if a part
// of it is in no entry.
func (t *Tokenizer) appendWord(dst []int32, word string) []int32 {
	if len(word) > t.maxWord && utf8.RuneCountInString(word) > t.maxWord {
		return append(dst, t.unk)
	}
	from, entries := len(dst), t.words
	for word != "" {
		n := min(len(word), t.longest)
		id, ok := entries[word[:n]]
		for !ok && n > 0 {
			n--
			id, ok = entries[word[:n]]
		}
		if n == 0 {
			return append(dst[:from], t.unk)
		}
		dst, word, entries = append(dst, id), word[n:], t.pieces
	}
	return dst
}
