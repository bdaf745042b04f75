// Package wordpiece splits text into BERT's WordPiece tokens, with the ids
// that Hugging Face's tokenizers give: clean-up, spaces around ideographs,
// lower case without accents, a word for each punctuation mark, then the
// longest vocabulary entries from the left.
//
// Where the implementations of Hugging Face differ among themselves (the
// ideographs beyond Unicode's basic plane), this one agrees with the
// JavaScript tokenizers. The package knows neither models nor embeddings, and
// nothing of padding: a tokenizer's file may ask for padding and truncation,
// and the caller decides.
package wordpiece

import (
	"sync"
	"unicode/utf8"
)

// Tokenizer turns text into token ids. It is safe for concurrent use.
type Tokenizer struct {
	norm         normalizer
	trie         *trie
	continuation uint32 // trie node below which the continuing pieces are
	maxWord      int    // longest word that is looked up, in characters
	unk          int32
	before       []int32 // special tokens around a text
	after        []int32
	pad          int32
	size         int
	raw          splitter // added tokens, found in the text as it came
	normalized   splitter // added tokens, found after normalization
	buffers      sync.Pool
}

// buffer is the scratch memory of one call.
type buffer struct{ text, scratch []byte }

// Append adds the ids of the text's tokens to dst, without the special tokens
// that a model wants around them. It allocates nothing if dst has room.
func (t *Tokenizer) Append(dst []int32, text string) []int32 {
	b, ok := t.buffers.Get().(*buffer)
	if !ok {
		b = new(buffer)
	}
	defer t.buffers.Put(b)
	for {
		plain, id, rest := t.raw.next(text)
		dst = t.appendPlain(dst, b, plain)
		if id == none {
			return dst
		}
		dst, text = append(dst, id), rest
	}
}

// Encode returns the ids with the model's special tokens around them,
// truncated on the right to at most that many ids where most is positive.
func (t *Tokenizer) Encode(text string, most int) []int32 {
	ids := append(make([]int32, 0, len(text)/3+4), t.before...)
	ids = t.Append(ids, text)
	if limit := max(0, most-len(t.after)); most > 0 && len(ids) > limit {
		ids = ids[:limit]
	}
	return append(ids, t.after...)
}

// Around returns the special tokens that go before and after a text's ids.
func (t *Tokenizer) Around() (before, after []int32) { return t.before, t.after }

// Pad returns the id that fills a row up.
func (t *Tokenizer) Pad() int32 { return t.pad }

// Size returns one more than the largest id that can come out: the rows that a
// model's embedding table must have.
func (t *Tokenizer) Size() int { return t.size }

func (t *Tokenizer) appendPlain(dst []int32, b *buffer, text string) []int32 {
	if text == "" {
		return dst
	}
	b.text, b.scratch = t.norm.append(b.text[:0], b.scratch, text)
	if t.normalized.empty() {
		return t.appendWords(dst, b.text)
	}
	rest := string(b.text)
	for {
		plain, id, after := t.normalized.next(rest)
		dst = t.appendWords(dst, []byte(plain))
		if id == none {
			return dst
		}
		dst, rest = append(dst, id), after
	}
}

// appendWords splits normalized text at white space and around punctuation.
func (t *Tokenizer) appendWords(dst []int32, text []byte) []int32 {
	table := classes()
	start, runes := 0, 0
	for i := 0; i < len(text); {
		r, size := rune(text[i]), 1
		if r >= utf8.RuneSelf {
			r, size = utf8.DecodeRune(text[i:])
		}
		class := table.of(r)
		if class&(classSpace|classPunct) == 0 {
			i, runes = i+size, runes+1
			continue
		}
		dst = t.appendWord(dst, text[start:i], runes)
		if class&classSpace == 0 {
			dst = t.appendWord(dst, text[i:i+size], 1)
		}
		i += size
		start, runes = i, 0
	}
	return t.appendWord(dst, text[start:], runes)
}

// appendWord adds the pieces of one word, or the unknown token if any part of
// it is in no entry.
func (t *Tokenizer) appendWord(dst []int32, word []byte, runes int) []int32 {
	if len(word) == 0 {
		return dst
	}
	if runes > t.maxWord {
		return append(dst, t.unk)
	}
	from, node := len(dst), uint32(0)
	for len(word) > 0 {
		id, length := t.trie.longest(node, word)
		if id == none {
			return append(dst[:from], t.unk)
		}
		dst, word, node = append(dst, id), word[length:], t.continuation
	}
	return dst
}
