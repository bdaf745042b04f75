// Package sentences hashes each sentence of a text, so that a service without the texts can
// compare two of them sentence by sentence.
//
// Sentences that only complain about an answer ("That wasn't valid JSON. Try again:") are
// left out at the beginning and at the end of a text, since they don't belong to the task.
package sentences

import (
	"bytes"
	"encoding/binary"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/cespare/xxhash/v2"
)

// List has a number for each sentence of a text. The upper 24 bits of the number are a
// hash of the sentence's words, the lower 8 bits their count, at most 255. The case of
// letters, punctuation and white space are ignored.
type List []uint32

const (
	// maxListed is the maximum length of a List. In longer texts, adjacent sentences share a
	// number.
	maxListed = 256
	// maxWords is the number of words after which a text without punctuation is cut at the
	// next word with a hash that cutMask selects, so that an insertion moves no later cut.
	maxWords = 24
	cutMask  = 7
	// maxWord is the maximum length, in bytes, of words of complaints.
	maxWord = 16
	// maxRead is the number of bytes that are read at each end of a text. What is between
	// them counts as one sentence.
	maxRead = 64 << 10
)

// Of returns the list of a text, which is empty for a text without words. maskNumbers makes
// all words with a digit equal.
func Of(text []byte, maskNumbers bool) List {
	r := reader{mask: maskNumbers, sum: offset}
	r.begin()
	if len(text) <= 2*maxRead {
		r.read(text)
		return fold(r.kept())
	}
	r.read(text[:maxRead])
	middle := text[maxRead : len(text)-maxRead]
	r.all = append(r.all, sentence{hash: xxhash.Sum64(middle), words: 255})
	r.read(text[len(text)-maxRead:])
	return fold(r.kept())
}

// maxBeginnings is the maximum length of Beginnings.
const maxBeginnings = 192

// Beginnings returns a number, as in a List, for each proper prefix of each sentence, cut at
// any character. A last sentence without an end counts as a prefix, too. If there are too
// many, it returns the last ones, since a text that somebody types or dictates grows at its
// end.
func Beginnings(text []byte) List {
	r := reader{sum: offset, beginnings: List{}}
	r.begin()
	r.read(text[max(0, len(text)-maxRead):])
	if end := len(bytes.TrimRight(text, " \t")); end > 0 && len(r.all) > 0 && !strings.ContainsRune(ends, lastRune(text[:end])) {
		last := r.all[len(r.all)-1]
		r.beginnings = append(r.beginnings, number((offset^last.hash)*prime, last.words))
	}
	return r.beginnings.Last(maxBeginnings)
}

// ends are the characters that end a sentence.
const ends = ".!?:;\n\r。！？：；…|"

func lastRune(text []byte) rune {
	c, _ := utf8.DecodeLastRune(text)
	return c
}

type sentence struct {
	hash      uint64
	words     int
	complaint bool
}

type reader struct {
	mask bool
	all  []sentence

	word   [maxWord]byte // the beginning of the open word
	length int           // of the word, in bytes
	sum    uint64        // of the word
	digit  bool
	open   sentence
	vocab  bool // each word of the sentence is in complaints
	core   bool // one of its words is a core word of complaints
	quoted bool

	beginnings List // nil if not wanted
}

func (r *reader) begin() {
	r.open = sentence{hash: offset}
	r.vocab, r.core = true, false
}

// read reads a piece of text, whose end is the end of a sentence.
func (r *reader) read(text []byte) {
	for len(text) > 0 {
		if n := r.letters(text); n > 0 {
			text = text[n:]
			continue
		}
		c, size := utf8.DecodeRune(text)
		text = text[size:]
		r.rune(c)
	}
	r.endSentence()
}

// letters reads ASCII letters and digits at the beginning of a text, and returns their
// number.
func (r *reader) letters(text []byte) int {
	n := 0
	for ; n < len(text) && small[text[n]] != 0; n++ {
		r.add(small[text[n]])
		r.digit = r.digit || text[n] <= '9'
	}
	return n
}

// add adds a byte to the word.
func (r *reader) add(c byte) {
	if r.beginnings != nil && r.length > 0 {
		hash := (r.open.hash ^ mix(r.sum)) * prime // as endWord does
		r.beginnings = append(r.beginnings, number((offset^hash)*prime, r.open.words+1))
	}
	if r.length < maxWord {
		r.word[r.length] = c
	}
	r.length++
	r.sum = (r.sum ^ uint64(c)) * prime
}

// addRune adds a character to the word.
func (r *reader) addRune(c rune) {
	var encoded [utf8.UTFMax]byte
	for _, b := range encoded[:utf8.EncodeRune(encoded[:], c)] {
		r.add(b)
	}
}

// small maps an ASCII letter or digit to its lower case, and other bytes to 0.
var small = func() (table [256]byte) {
	for c := range byte(128) {
		switch {
		case 'A' <= c && c <= 'Z':
			table[c] = c + 'a' - 'A'
		case 'a' <= c && c <= 'z' || '0' <= c && c <= '9':
			table[c] = c
		}
	}
	return table
}()

// rune reads a character that is not an ASCII letter or digit.
func (r *reader) rune(c rune) {
	switch {
	case c == '\'' || c == '’':
		r.quoted = r.quoted || r.length == 0
	case c == '_' || c >= utf8.RuneSelf && (unicode.IsLetter(c) || unicode.IsMark(c) || unicode.IsNumber(c)):
		r.addRune(unicode.ToLower(c))
		if alone(c) {
			r.endWord()
		}
	default:
		r.mark(c)
	}
}

// mark reads a character that is not part of a word. A symbol is a word of its own.
func (r *reader) mark(c rune) {
	r.endWord()
	switch c {
	case '.', '!', '?', ':', ';', '\n', '\r', '。', '！', '？', '：', '；', '…', '|': // the same as ends
		r.endSentence()
	case '"', '`', '“', '”', '«', '»', '„':
		r.quoted = true
	case ' ', '\t', ',', '(', ')', '-', '*', '#':
	default:
		if unicode.IsSymbol(c) {
			r.addRune(c)
			r.endWord()
		}
	}
}

// alone reports whether a character is a word, in scripts without spaces.
func alone(c rune) bool {
	return unicode.In(c, unicode.Han, unicode.Hiragana, unicode.Katakana, unicode.Thai)
}

func (r *reader) endWord() {
	if r.length == 0 {
		return
	}
	if r.digit && r.mask {
		r.sum = offset
	}
	if r.vocab {
		class := complaints[string(r.word[:min(r.length, maxWord)])]
		r.vocab = r.digit || class != 0 && r.length <= maxWord
		r.core = r.core || class == core
	}
	h := mix(r.sum)
	r.open.hash = (r.open.hash ^ h) * prime
	r.open.words++
	if r.beginnings != nil {
		r.beginnings = append(r.beginnings, number((offset^r.open.hash)*prime, r.open.words))
	}
	r.length, r.sum, r.digit = 0, offset, false
	if r.open.words >= maxWords && (h>>32)&cutMask == 0 {
		r.endSentence()
	}
}

func (r *reader) endSentence() {
	r.endWord()
	if r.open.words > 0 {
		r.open.complaint = r.vocab && r.core && !r.quoted
		r.all = append(r.all, r.open)
		r.quoted = false
		if r.beginnings != nil {
			r.beginnings = r.beginnings[:len(r.beginnings)-1] // the whole sentence
		}
	}
	r.begin()
}

// kept returns the sentences without the complaints at both ends, or all sentences of a text
// that consists of complaints.
func (r *reader) kept() []sentence {
	from, to := 0, len(r.all)
	for from < to && r.all[from].complaint {
		from++
	}
	for to > from && r.all[to-1].complaint {
		to--
	}
	if from == to {
		return r.all
	}
	return r.all[from:to]
}

// fold returns the numbers of sentences. If there are too many, groups of sentences share a
// number. The hash of a sentence decides whether it ends a group, so that groups do not
// depend on the beginning of the text.
func fold(all []sentence) List {
	mask := uint64(0)
	for n := len(all); n > maxListed/2 && len(all) > maxListed; n /= 2 {
		mask = mask<<1 | 1
	}
	out := make(List, 0, min(len(all), maxListed))
	sum, words := offset, 0
	for i, s := range all {
		sum, words = (sum^s.hash)*prime, words+s.words
		if len(out) < maxListed-1 && (s.hash>>40)&mask == 0 || i == len(all)-1 {
			out = append(out, number(sum, words))
			sum, words = offset, 0
		}
	}
	return out
}

func number(sum uint64, words int) uint32 { return uint32(sum>>32)&^0xff | uint32(min(words, 255)) }

// Number returns the number of something that accompanies a text, such as a picture, from
// its digest. It counts as one word.
func Number(digest []byte) uint32 {
	return uint32(xxhash.Sum64(digest)>>32)&^0xff | 1
}

// Bytes returns the wire form of the list.
func (l List) Bytes() []byte {
	out := make([]byte, 0, 4*len(l))
	for _, n := range l {
		out = binary.LittleEndian.AppendUint32(out, n)
	}
	return out
}

// Last returns the last n numbers, or all if there are fewer.
func (l List) Last(n int) List { return l[max(0, len(l)-n):] }

const (
	offset uint64 = 0xcbf29ce484222325
	prime  uint64 = 0x100000001b3
)

// mix is the finalizer of the 64-bit FNV-1a hashes. Stored histories depend on it.
func mix(h uint64) uint64 {
	h = (h ^ h>>32) * 0xd6e8feb86659fd93
	return h ^ h>>29
}
