package recognize

import (
	"bytes"
	"slices"
)

// The classes of bytes. Non-ASCII bytes end a word, since their scripts may have no space
// before a number.
const (
	other = iota
	letter
	digit
)

var class = func() (t [256]uint8) {
	for c := range t {
		switch {
		case '0' <= c && c <= '9':
			t[c] = digit
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', c == '_':
			t[c] = letter
		}
	}
	return t
}()

// lengths has, by first letter, the set of the lengths of words that [scanner.word] may
// find: container and ref, names of temporary files and of saved outputs, and hashes of
// symbols. A length is a bit.
var lengths = func() (t [32]uint32) {
	for i := range t {
		t[i] = 1 << 31 // and more
	}
	t['c'&31] |= 1 << 9
	t['r'&31] |= 1 << 3
	t['t'&31] |= 1<<11 | 0xff<<24
	t['h'&31] |= 1 << 17
	return t
}()

// isPlain reports whether [scanner.word] can't find anything at the word text[i:w], by the
// letters at its beginning and end, its length, and the bytes around it. It has few branches
// because nearly every word is plain.
func isPlain(text []byte, i, w int) bool {
	if i == 0 || len(text)-w < 8 {
		return false // the few at the ends
	}
	n, end := w-i, uint(text[w-2]|0x20)<<8|uint(text[w-1]|0x20)
	switch sign := uint32(nameOf(text[i], text[i+1], text[i+2])) | lengths[text[i]&31]>>min(n, 31)&1; {
	case sign != 0, end == 'i'<<8|'d', end == 'd'<<8|'s', (text[i+3] == '_' || text[i+4] == '_') && (text[i] == 'r' || text[i] == 'm'):
		return false
	case text[i-1] == '.' && n > 5, text[i-1] == '/' && bytes.HasSuffix(text[:i], []byte("-results/")):
		return false
	case text[w] == '-':
		return n < 8
	case text[w] == '.':
		return !hasPrefix(text[w:], ".output")
	}
	return !nameEnds[text[w]] || !nameEnds[text[w+1]] && class[text[w+1]] != digit || class[text[afterName(text, w)]] != digit
}

// name is what the first three letters of a word abbreviate.
type name uint8

const (
	noName name = iota
	dayName
	monthName
)

// names maps the first two letters of a word to the set of third letters that make it the
// name of a day, in the lower 32 bits, and of a month, in the upper ones.
var names = func() (t [32 * 32]uint64) {
	for kind, list := range [...]string{"mon tue wed thu fri sat sun", "jan feb mar apr may jun jul aug sep oct nov dec"} {
		for i := 0; i < len(list); i += 4 {
			t[int(list[i]&31)<<5|int(list[i+1]&31)] |= 1 << (32*kind + int(list[i+2]&31))
		}
	}
	return t
}()

// nameOf looks up three bytes in the days and months. It is called for every word and must
// be fast, so it takes a few other bytes for letters; callers exclude those.
func nameOf(a, b, c byte) name {
	found := names[int(a&31)<<5|int(b&31)] >> (c & 31)
	return name(found&1 | found>>31&2)
}

// longNames are the ends of full names of days and months after their first three
// letters.
var longNames = [...]string{
	"day", "sday", "nesday", "rsday", "urday",
	"uary", "ruary", "ch", "il", "e", "y", "ust", "tember", "ober", "ember",
}

// nameAt returns the end of the name of a day or month at i, abbreviated or not, or 0.
func nameAt(text []byte, i int, want name) int {
	if i+3 > len(text) || !letterAt(text, i) || !letterAt(text, i+1) || !letterAt(text, i+2) ||
		nameOf(text[i], text[i+1], text[i+2]) != want {
		return 0
	}
	end := i + 3
	for end < len(text) && class[text[end]] == letter {
		end++
	}
	if end == i+3 {
		return end
	}
	for _, l := range longNames {
		if equalFold(text[i+3:end], l) {
			return end
		}
	}
	return 0
}

func monthAt(text []byte, i int) int { return nameAt(text, i, monthName) }

func isDateSep(ch byte) bool { return ch == '-' || ch == '/' || ch == ' ' }

func isHex(ch byte) bool {
	return '0' <= ch && ch <= '9' || 'a' <= ch|0x20 && ch|0x20 <= 'f'
}

// wordAt reports whether a word goes on at i.
func wordAt(text []byte, i int) bool { return i < len(text) && class[text[i]] != other }

// letterAt reports whether there is a letter at i.
func letterAt(text []byte, i int) bool { return i < len(text) && class[text[i]] == letter }

// skipDigits returns the index of the first byte from i on that is not a digit.
func skipDigits(text []byte, i int) int {
	for i < len(text) && class[text[i]] == digit {
		i++
	}
	return i
}

// skipWord returns the index of the first byte from i on that is not of a word.
func skipWord(text []byte, i int) int {
	for wordAt(text, i) {
		i++
	}
	return i
}

// skipFraction returns the end of the decimal point and digits at i, or i where there
// are none.
func skipFraction(text []byte, i int) int {
	if i+1 < len(text) && text[i] == '.' && class[text[i+1]] == digit {
		return skipDigits(text, i+1)
	}
	return i
}

// skipSpace returns i, or i+1 if there is a space at i.
func skipSpace(text []byte, i int) int {
	if i < len(text) && text[i] == ' ' {
		i++
	}
	return i
}

func hasAnyPrefix(text []byte, prefixes []string) bool {
	return slices.ContainsFunc(prefixes, func(p string) bool { return hasPrefix(text, p) })
}

func hasPrefix(text []byte, p string) bool { return len(text) >= len(p) && string(text[:len(p)]) == p }

// equalFold compares ASCII text with a lower-case word.
func equalFold(text []byte, lower string) bool {
	if len(text) != len(lower) {
		return false
	}
	for i, ch := range text {
		if 'A' <= ch && ch <= 'Z' {
			ch += 'a' - 'A'
		}
		if ch != lower[i] {
			return false
		}
	}
	return true
}
