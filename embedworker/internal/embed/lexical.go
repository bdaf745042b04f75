package embed

import (
	"context"
	"fmt"
	"math/bits"
	"sync"
	"unicode"
	"unicode/utf8"
)

// Lexical embeds hashed words, parts of words and pairs of neighbours. Each counts once, however
// often it occurs, so that a text stays similar to itself when the same prefix is added again
// and again. Words that mean little (articles, politeness, "try again") have small weights,
// numbers and identifiers large ones; the order of words hardly matters.
//
// It needs no model, is deterministic across machines and versions of Go, and takes
// microseconds. It does not recognize synonyms ("fetch the page" and "download the site" have
// nothing in common), negation by a small word, or who does what to whom; and two short texts
// with the same few content words are the same to it.
type Lexical struct{ scratch sync.Pool }

const (
	lexicalName = "lexical-1"
	// lexicalDim makes collisions of a few hundred words negligible: the similarity of unrelated
	// texts is 0 ± 0.045.
	lexicalDim = 512
	// lexicalBytes bounds the work: only the end of a longer text is read.
	lexicalBytes = 16 << 10
)

// Weights of features.
const (
	weightWord       = 1.0
	weightIdentifier = 1.5
	weightNumber     = 2.0
	weightPairs      = 0.12 // of two neighbours: word order, discounted
	weightParts      = 0.35 // of all parts of a word together
	weightIdeograph  = 0.7
)

// NewLexical returns the embedder.
func NewLexical() *Lexical { return &Lexical{} }

// Name implements Embedder.
func (*Lexical) Name() string { return lexicalName }

// Dim implements Embedder.
func (*Lexical) Dim() int { return lexicalDim }

// Within implements Embedder. It is less than the 0.95 of models, because a synonym has
// nothing in common with the word that it replaces.
func (*Lexical) Within() float64 { return 0.90 }

// Close implements Embedder.
func (*Lexical) Close() error { return nil }

// Embed implements Embedder.
func (l *Lexical) Embed(ctx context.Context, texts ...string) ([][]float32, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	s, ok := l.scratch.Get().(*features)
	if !ok {
		s = new(features)
	}
	defer l.scratch.Put(s)
	out := make([][]float32, len(texts))
	for i, text := range texts {
		v := make([]float32, lexicalDim)
		s.collect((*[lexicalDim]float32)(v), ending(text, lexicalBytes))
		if !normalize(v) {
			return nil, fmt.Errorf("%w: text %d has no word", ErrEmpty, i)
		}
		out[i] = v
	}
	return out, nil
}

// ending returns the last n bytes of a text, or fewer so that it begins with a whole character.
func ending(text string, n int) string {
	if len(text) <= n {
		return text
	}
	text = text[len(text)-n:]
	for i := range min(utf8.UTFMax, len(text)) {
		if utf8.RuneStart(text[i]) {
			return text[i:]
		}
	}
	return text
}

// features collects the features of one text into a vector.
type features struct {
	vector *[lexicalDim]float32
	seen   []uint64 // hashes of the features so far; open addressing
	recent [recentWords]entered
	word   []byte // the word being read, in lower case
	last   uint64 // hash of the word before, for pairs
	marked bool   // the word has a digit, an underscore or inner capitals
	digits bool   // the word has nothing but digits
	lower  bool   // the last letter was a lower-case one
}

// entered is a word whose features have been added, except for its pairs.
type entered struct {
	key, hash uint64
	weight    float32
}

// recentWords is the size of the cache of words, in which a word replaces that of the same slot.
const recentWords = 512

func (f *features) collect(v *[lexicalDim]float32, text string) {
	f.vector, f.last, f.word = v, 0, f.word[:0]
	clear(f.recent[:])
	f.room(1 << bits.Len(uint(2*len(text)+16))) // a byte makes at most 1.5 features
	f.begin()
	for i := 0; i < len(text); {
		if n := small(text[i:]); n > 0 {
			f.word, f.digits, f.lower = append(f.word, text[i:i+n]...), false, true
			i += n
			continue
		}
		r, n := utf8.DecodeRuneInString(text[i:])
		f.rune(r)
		i += n
	}
	f.end()
	f.vector = nil
}

// room empties seen and sets its size.
func (f *features) room(size int) {
	if cap(f.seen) < size {
		f.seen = make([]uint64, size)
		return
	}
	f.seen = f.seen[:size]
	clear(f.seen)
}

// small returns the number of lower-case ASCII letters at the beginning of a text.
func small(text string) (n int) {
	for n < len(text) && 'a' <= text[n] && text[n] <= 'z' {
		n++
	}
	return n
}

func (f *features) begin() { f.word, f.marked, f.digits, f.lower = f.word[:0], false, true, false }

// rune handles the next character, except for lower-case ASCII letters: a part of a word, a word
// of its own, or the end of one.
func (f *features) rune(r rune) {
	switch {
	case 'A' <= r && r <= 'Z':
		f.marked = f.marked || f.lower
		f.word, f.digits = append(f.word, byte(r)+'a'-'A'), false
	case '0' <= r && r <= '9':
		f.word, f.marked = append(f.word, byte(r)), true
	case r == '_':
		f.word, f.marked, f.digits = append(f.word, '_'), true, false
	case r == '\'' || r == '’':
		f.digits = f.digits && len(f.word) == 0
	case r < utf8.RuneSelf:
		f.end()
	case unicode.In(r, unicode.Han, unicode.Hiragana, unicode.Katakana, unicode.Thai):
		f.end()
		f.word = utf8.AppendRune(f.word, r)
		f.single(weightIdeograph)
	case unicode.IsLetter(r) || unicode.IsMark(r) || unicode.IsNumber(r):
		f.word, f.digits = utf8.AppendRune(f.word, unicode.ToLower(r)), false
	case unicode.IsSymbol(r):
		f.end()
		f.word = utf8.AppendRune(f.word, r)
		f.single(weightWord)
	default:
		f.end()
	}
}

// single adds the character in word as a word without parts.
func (f *features) single(weight float32) {
	h := hash(seedWord, f.word)
	f.add(h, weight)
	f.pair(h, weight)
	f.begin()
}

// end adds the word that was read. Of a word that has occurred before, it adds only the pair.
func (f *features) end() {
	if len(f.word) == 0 {
		return
	}
	h := hash(seedWord, f.word)
	w, key := &f.recent[h>>32%recentWords], f.key(h)
	before := w.key == key
	if !before {
		*w = f.weighed(h)
		w.key = key
		f.add(w.hash, w.weight)
	}
	f.pair(w.hash, w.weight)
	if !before && !f.marked {
		f.parts(w.weight)
	}
	f.begin()
}

// key returns a key of the word that was read, which depends on its flags, too.
func (f *features) key(h uint64) uint64 {
	h <<= 2
	if f.marked {
		h |= 1
	}
	if f.digits {
		h |= 2
	}
	return h
}

// weighed returns hash and weight of the word that was read, given the hash of its letters.
func (f *features) weighed(h uint64) entered {
	w := entered{hash: h, weight: f.weigh(h)}
	if f.marked {
		return w
	}
	if s := stem(f.word); len(s) < len(f.word) {
		w.hash = hash(seedWord, s)
		if of := f.weigh(w.hash); of >= lightestStem {
			w.weight = min(w.weight, of)
		}
	}
	return w
}

// stem removes the most common endings of English words. It is crude: a wrong stem costs little,
// since the parts of the words still differ.
func stem(word []byte) []byte {
	const least = 4 // bytes of a stem
	for _, ending := range endings {
		if n := len(word) - len(ending); n >= least && string(word[n:]) == ending {
			return word[:n]
		}
	}
	return word
}

var endings = []string{"ing", "ed", "es", "s"}

func (f *features) weigh(h uint64) float32 {
	switch {
	case f.digits && f.marked:
		return weightNumber
	case f.marked:
		return weightIdentifier
	}
	if w, ok := lightWords()[h]; ok {
		return w
	}
	return weightWord
}

// pair adds the word together with the one before it.
func (f *features) pair(h uint64, weight float32) {
	if f.last != 0 {
		f.add(mix((f.last*31+h)^seedPair), weightPairs*weight)
	}
	f.last = h
}

// parts adds the word's runs of four bytes, with its ends marked, so that forms of a word
// ("listed", "listing") are similar.
func (f *features) parts(weight float32) {
	const size = partSize
	n := len(f.word) + 2 - size + 1
	if n < 2 {
		return
	}
	f.word = append(f.word, '$')
	each := weight * weightParts / sqrt32(n)
	f.add(hash(seedPart^'^', f.word[:size-1]), each)
	for i := 0; i+size <= len(f.word); i++ {
		f.add(hashPart([size]byte(f.word[i:])), each)
	}
}

// add adds a feature, unless it was added before. It uses two coordinates with independent signs,
// to halve the effect of a collision.
func (f *features) add(h uint64, weight float32) {
	mask := uint64(len(f.seen) - 1)
	h |= 1 // 0 marks a free slot
	i := h >> 20 & mask
	for ; f.seen[i] != 0; i = (i + 1) & mask {
		if f.seen[i] == h {
			return
		}
	}
	f.seen[i] = h
	f.vector[(h>>8)%lexicalDim] += sign(h>>1) * weight
	f.vector[(h>>40)%lexicalDim] += sign(h>>2) * weight
}

func sign(h uint64) float32 { return 1 - 2*float32(h&1) }

func sqrt32(n int) float32 {
	if n < len(roots) {
		return roots[n]
	}
	return roots[len(roots)-1]
}

var roots = [...]float32{1, 1, 1.4142, 1.7321, 2, 2.2361, 2.4495, 2.6458, 2.8284, 3, 3.1623, 3.3166, 3.4641, 3.6056, 3.7417, 3.873, 4}

// Seeds distinguish words, parts and pairs of the same bytes.
const (
	seedWord uint64 = 0xcbf29ce484222325
	seedPart uint64 = 0x9ae16a3b2f90404f
	seedPair uint64 = 0xc3a5c85c97cb3127
)

// hash is 64-bit FNV-1a with a final mix. Stored vectors depend on it.
func hash(seed uint64, b []byte) uint64 {
	for _, c := range b {
		seed = (seed ^ uint64(c)) * prime
	}
	return mix(seed)
}

// partSize is the number of bytes of a part of a word.
const partSize = 4

// hashPart is hash(seedPart, part).
func hashPart(part [partSize]byte) uint64 {
	h := (seedPart ^ uint64(part[0])) * prime
	h = (h ^ uint64(part[1])) * prime
	h = (h ^ uint64(part[2])) * prime
	return mix((h ^ uint64(part[3])) * prime)
}

// prime is FNV's.
const prime = 0x100000001b3

func mix(h uint64) uint64 {
	h = (h ^ h>>32) * 0xd6e8feb86659fd93
	return h ^ h>>29
}
