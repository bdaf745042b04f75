package jsonwalk

import (
	"encoding/binary"
	"math/bits"
	"unicode/utf8"
)

// Skip consumes the next value of any kind.
func (w *Walker) Skip() error {
	switch w.Kind() {
	case '"':
		_, err := w.str()
		return err
	case '{':
		return w.Object(nil)
	case '[':
		return w.Array(nil)
	case '0':
		return w.number()
	case 't':
		return w.literal("true")
	case 'f':
		return w.literal("false")
	case 'n':
		return w.literal("null")
	default:
		return w.fault(ErrSyntax)
	}
}

func (w *Walker) literal(word string) error {
	if len(w.text)-w.pos < len(word) || string(w.text[w.pos:w.pos+len(word)]) != word {
		return w.fault(ErrSyntax)
	}
	w.pos += len(word)
	return nil
}

// number consumes a number: an integer without leading zeros, an optional fraction and
// an optional exponent.
func (w *Walker) number() error {
	w.next('-')
	if !w.next('0') && !w.digits() {
		return w.fault(ErrSyntax)
	}
	if w.next('.') && !w.digits() {
		return w.fault(ErrSyntax)
	}
	if w.next('e') || w.next('E') {
		if !w.next('+') {
			w.next('-')
		}
		if !w.digits() {
			return w.fault(ErrSyntax)
		}
	}
	return nil
}

// digits consumes digits and reports whether there was at least one.
func (w *Walker) digits() bool {
	start := w.pos
	for w.pos < len(w.text) && '0' <= w.text[w.pos] && w.text[w.pos] <= '9' {
		w.pos++
	}
	return w.pos > start
}

// ones and highs repeat one byte eight times, to examine eight bytes at once.
const (
	ones  = 0x0101010101010101
	highs = 0x8080808080808080
)

// special returns a word in which the lowest set bit marks the lowest byte of x that is
// a quote, a backslash, a control character or not ASCII. Bits of higher bytes may be
// wrong, because a borrow goes upwards.
func special(x uint64) uint64 {
	quote := x ^ ones*'"'
	slash := x ^ ones*'\\'
	return (x | (x - ones*' ') | (quote - ones) | (slash - ones)) & highs
}

// str consumes a string and reports whether it has escapes.
func (w *Walker) str() (escaped bool, err error) {
	text, i := w.text, w.pos+1
	for i < len(text) {
		if i+8 <= len(text) {
			m := special(binary.LittleEndian.Uint64(text[i:]))
			if m == 0 {
				i += 8
				continue
			}
			i += bits.TrailingZeros64(m) >> 3
		}
		switch c := text[i]; {
		case c == '\\' && i+1 < len(text) && unescaped[text[i+1]] != 0:
			escaped = true
			i += 2
		case c == '"':
			w.pos = i + 1
			return escaped, nil
		case c >= ' ' && c < utf8.RuneSelf && c != '\\':
			i++
		default:
			n, fault := oddLen(text[i:])
			if fault != nil {
				w.pos = i
				return escaped, w.fault(fault)
			}
			escaped = escaped || c == '\\'
			i += n
		}
	}
	w.pos = len(text)
	return escaped, w.fault(ErrSyntax)
}

// oddLen returns the length of a \u escape, or of a run of characters that are not
// ASCII, at the beginning of text.
func oddLen(text []byte) (int, error) {
	switch {
	case text[0] == '\\':
		if _, ok := hex4(text); ok {
			return 6, nil
		}
	case text[0] >= utf8.RuneSelf:
		if n := runesLen(text); n > 0 {
			return n, nil
		}
		return 0, ErrUTF8
	}
	return 0, ErrSyntax
}

// runesLen returns the length of the characters at the beginning of text that are not
// ASCII. It is 0 if one of them is invalid.
func runesLen(text []byte) int {
	n := 0
	for n < len(text) && text[n] >= utf8.RuneSelf {
		r, size := utf8.DecodeRune(text[n:])
		if r == utf8.RuneError && size == 1 {
			return 0
		}
		n += size
	}
	return n
}
