// Package details finds the parts that distinguish two texts of the same words: numbers,
// identifiers and negations. Page 2 is not page 3, parser.go is not lexer.go, and
// running is not the same as not running, although an embedding finds the
// sentences around them alike.
//
// It reads text and returns sums. It knows nothing of embeddings or loops.
package details

import (
	"slices"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"
)

// Sum identifies the set of details of a text: equal sets have equal sums. The
// sum of a text without details is 0.
type Sum uint64

var lists = sync.Pool{New: func() any { return new([]uint64) }}

// Of returns the sum of the details of texts, one after the other on lines of their own: words
// with a digit, an underscore, inner capitals, or a dot, slash or at sign inside, options of
// commands (-o), wildcards (%name), small English numbers, and words that are negated. What
// Read removes is no detail.
func Of(texts ...string) Sum { return read(texts, func(int, int) {}) }

// Read returns the sum of the details of texts, as Of does, and each text without what
// differs between two runs of the same command: durations, times of day with seconds, memory
// addresses, and the count of an attempt.
func Read(texts ...string) (Sum, []string) {
	s := steadyTexts{texts: texts, out: make([]string, len(texts))}
	sum := read(texts, s.omit)
	return sum, s.rest()
}

// read returns the sum of the details of texts, and calls omit with the position of each part
// that is not steady.
func read(texts []string, omit func(from, to int)) Sum {
	list := lists.Get().(*[]uint64)
	defer lists.Put(list)
	found := (*list)[:0]
	each(strings.Join(texts, "\n"), func(m string, from, to int, steady bool) {
		if steady {
			found = append(found, hash(m))
		} else {
			omit(from, to)
		}
	})
	slices.Sort(found)
	found = slices.Compact(found)
	*list = found
	return fold(found)
}

// steadyTexts removes the omitted parts of texts that were joined with a byte between two.
type steadyTexts struct {
	texts, out []string
	// i is the index of the current text, and start its offset.
	i, start int
	// kept is the part of it that was kept so far, which reaches up to copied.
	kept   []byte
	copied int
}

// omit removes the text between two offsets.
func (s *steadyTexts) omit(from, to int) {
	for from > s.start+len(s.texts[s.i]) {
		s.next()
	}
	s.kept = append(s.kept, s.texts[s.i][s.copied:from-s.start]...)
	s.copied = to - s.start
}

// next finishes the current text.
func (s *steadyTexts) next() {
	text := s.texts[s.i]
	if s.out[s.i] = text; s.copied > 0 {
		s.out[s.i] = string(append(s.kept, text[s.copied:]...))
	}
	s.i, s.start, s.kept, s.copied = s.i+1, s.start+len(text)+1, s.kept[:0], 0
}

func (s *steadyTexts) rest() []string {
	for s.i < len(s.texts) {
		s.next()
	}
	return s.out
}

// each finds the details of a text and their positions. Details that are not steady differ from
// run to run. A number that is spelled out is the same detail as its digits.
func each(text string, found func(detail string, from, to int, steady bool)) {
	var before string
	var negated negations
	for from, to, of := next(text, 0); from < to; from, to, of = next(text, to) {
		word, rest := text[from:to], text[to:]
		if plain := plainPart(word, of); plain != "" { // as most have
			if before = plain; negated.left == 0 && !known(plain) {
				continue
			}
			if m := negated.next(plain, rest); m != "" {
				found(m, from, from+len(plain), true)
			}
			if n := spelledOut(plain); n != "" {
				found(n, from, from+len(plain), !isCount(rest))
			}
			continue
		}
		if isFlag(text, from, to) {
			found(word, from, to, true)
			before = word
			continue
		}
		for word != "" {
			var part string
			var time bool
			from += leading(word)
			part, word, time = cut(text[from:to], of)
			if m := negated.next(part, rest); m != "" {
				found(m, from, from+len(part), true)
			}
			if isDetail(part) {
				found(part, from, from+len(part), !time && !changes(part, before, rest))
			} else if n := spelledOut(part); n != "" {
				found(n, from, from+len(part), !isCount(rest))
			}
			if part != "" {
				before = part
			}
			from = to - len(word)
		}
	}
}

// isFlag reports whether a word is a command's option: -o or --output, after a
// space.
func isFlag(text string, from, to int) bool {
	if text[from] != '-' || from == 0 || text[from-1] != ' ' {
		return false
	}
	name := strings.TrimPrefix(strings.TrimPrefix(text[from:to], "-"), "-")
	return len(name) < to-from && name != "" && ('a' <= name[0] && name[0] <= 'z' || 'A' <= name[0] && name[0] <= 'Z')
}

func fold(hashes []uint64) Sum {
	if len(hashes) == 0 {
		return 0
	}
	sum := uint64(0xcbf29ce484222325)
	for _, h := range hashes {
		sum = (sum ^ h) * 0x100000001b3
		sum ^= sum >> 29
	}
	return Sum(sum | 1)
}

// next returns the position of the first run of word characters from i on, and the kinds of its
// bytes. It is empty at the end of the text.
func next(text string, i int) (from, to int, of kind) {
	for i < len(text) && kinds[text[i]] == 0 {
		i++
	}
	for from = i; i < len(text) && kinds[text[i]] > 0; i++ {
		of |= kinds[text[i]]
	}
	if i == len(text) || kinds[text[i]] == 0 {
		return from, i, of
	}
	from += until(text[from:], true)
	return from, from + until(text[from:], false), mixed
}

// until returns the offset of the first character that is, or is not, a word character; the
// length of the text if there is none.
func until(text string, word bool) int {
	for i, r := range text {
		if inWord(r) == word {
			return i
		}
	}
	return len(text)
}

func inWord(r rune) bool {
	if r < utf8.RuneSelf {
		return kinds[r] != 0
	}
	return unicode.IsLetter(r) || unicode.IsNumber(r)
}

// cut splits a word at its first colon, unless the colons are those of a time of day, and
// removes punctuation from the end of the part before it. of are the kinds of the word's bytes.
// The time that it takes is proportional to the part alone: a word may be a megabyte of colons.
func cut(word string, of kind) (part, rest string, time bool) {
	at := -1
	if of&colon != 0 {
		at = strings.IndexByte(word, ':')
	}
	if at < 0 {
		return trimEnd(word), "", false
	}
	if len(word) <= longestTime {
		if part := trimEnd(word); isTime(part) {
			return part, "", true
		}
	}
	return trimEnd(word[:at]), word[at+1:], false
}

// leading returns the length of the punctuation at a word's beginning.
func leading(word string) (n int) {
	for n < len(word) && isPunctuation(word[n]) {
		n++
	}
	return n
}

// trimEnd returns a word without the punctuation at its end.
func trimEnd(word string) string {
	for word != "" && isPunctuation(word[len(word)-1]) {
		word = word[:len(word)-1]
	}
	return word
}

func isPunctuation(c byte) bool {
	switch c {
	case '.', '/', '\\', ':', '-', '@':
		return true
	}
	return false
}

// leastTime is the length of 1:30:05, and longestTime that of 2026-05-22T14:31:59.123456789Z
// and a full stop.
const leastTime, longestTime = 7, 32

const punctuation = `./\:-@`

// changes reports whether a detail other than a time of day differs between two runs of the
// same command.
func changes(word, before, after string) bool {
	return word[0] <= '9' && (isAddress(word) || isDuration(word, after) || isNumber(word) && isAttempt(before))
}

// isTime recognizes 14:30:05 and 14:30:05.123, alone or after a date and a T.
func isTime(word string) bool {
	if len(word) < leastTime || strings.IndexByte(word, ':') < 0 {
		return false
	}
	if i := strings.IndexByte(word, 'T'); i > 0 {
		word = strings.TrimSuffix(word[i+1:], "Z")
	}
	if len(word) < leastTime || len(word) > longestTime || strings.Count(word, ":") != 2 {
		return false
	}
	for _, r := range word {
		if (r < '0' || r > '9') && r != ':' && r != '.' {
			return false
		}
	}
	return true
}

// isAddress recognizes 0x7f3a5c001000; shorter hexadecimal numbers are constants.
func isAddress(word string) bool {
	const least = 10
	return len(word) >= least && word[0] == '0' && (word[1] == 'x' || word[1] == 'X')
}

var units = []string{"ns", "us", "µs", "μs", "ms", "s", "sec", "secs", "second", "seconds", "m", "min", "mins", "minute", "minutes", "milliseconds", "millisecond", "hour", "hours"}

// isDuration recognizes "0.03s" and "0.03 seconds".
func isDuration(word, after string) bool {
	n := 0
	for n < len(word) && ('0' <= word[n] && word[n] <= '9' || word[n] == '.') {
		n++
	}
	switch {
	case n == 0:
		return false
	case n < len(word):
		return slices.Contains(units, word[n:])
	case !strings.HasPrefix(after, " "):
		return false
	}
	unit := first(after)
	return len(unit) > 1 && slices.Contains(units, trimEnd(unit[leading(unit):]))
}

// first returns the first word of a text if it is near.
func first(text string) string {
	text = text[:min(len(text), 16)]
	from, to, _ := next(text, 0)
	return text[from:to]
}

func isNumber(word string) bool {
	for _, r := range word {
		if (r < '0' || r > '9') && r != '.' {
			return false
		}
	}
	return word != ""
}

func isAttempt(before string) bool {
	if !known(before) {
		return false
	}
	switch strings.ToLower(before) {
	case "attempt", "attempts", "try", "retry", "retries":
		return true
	}
	return false
}

func hash(s string) uint64 {
	h := uint64(0x9ae16a3b2f90404f)
	for i := range len(s) {
		h = (h ^ uint64(s[i])) * 0x100000001b3
	}
	return h ^ h>>31
}

// Words counts the words of texts, up to a maximum.
// Characters of scripts without spaces count one each.
func Words(upTo int, texts ...string) (n int) {
	for _, text := range texts {
		n += words(text, upTo-n)
	}
	return n
}

func words(text string, upTo int) int {
	n, inside := 0, false
	for _, r := range text {
		if n >= upTo {
			break
		}
		alone := r >= utf8.RuneSelf && unicode.In(r, unicode.Han, unicode.Hiragana, unicode.Katakana, unicode.Thai)
		letter := unicode.IsLetter(r) || unicode.IsNumber(r)
		if alone || letter && !inside {
			n++
		}
		inside = (letter || r == '\'' || r == '’') && !alone
	}
	return n
}
