package jsonwalk

import (
	"encoding/binary"
	"math/bits"
	"unicode/utf8"
)

// Skip consumes the value.
func (w *Walker) Skip() error {
	switch w.Kind() {
	case '"':
		_, err := w.str()
		return err
	case '{':
		return w.skipObject()
	case '[':
		return w.skipArray()
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

// skipObject is Object without a callback.
func (w *Walker) skipObject() error {
	if err := w.open('{'); err != nil {
		return err
	}
	seen := w.names.open()
	if w.space(); w.next('}') {
		return w.close()
	}
	for {
		name, err := w.name()
		if err != nil {
			return err
		}
		if !w.names.add(seen, name) {
			return w.fault(ErrDuplicate)
		}
		if err := w.Skip(); err != nil {
			return err
		}
		w.space()
		switch {
		case w.next('}'):
			w.names.close(seen)
			return w.close()
		case !w.next(','):
			return w.fault(ErrSyntax)
		}
		w.space()
	}
}

// skipArray is Array without a callback.
func (w *Walker) skipArray() error {
	if err := w.open('['); err != nil {
		return err
	}
	if w.space(); w.next(']') {
		return w.close()
	}
	for {
		if err := w.Skip(); err != nil {
			return err
		}
		w.space()
		switch {
		case w.next(']'):
			return w.close()
		case !w.next(','):
			return w.fault(ErrSyntax)
		}
		w.space()
	}
}

func (w *Walker) literal(word string) error {
	if len(w.text)-w.pos < len(word) || string(w.text[w.pos:w.pos+len(word)]) != word {
		return w.fault(ErrSyntax)
	}
	w.pos += len(word)
	return nil
}

// number consumes a number: an integer without leading zeros, a fraction and an
// exponent, all but the first optional.
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

// digits consumes digits and says whether there was one.
func (w *Walker) digits() bool {
	start := w.pos
	for w.pos < len(w.text) && '0' <= w.text[w.pos] && w.text[w.pos] <= '9' {
		w.pos++
	}
	return w.pos > start
}

// Each byte of a word, for looking at eight bytes of a string at once.
const (
	ones  = 0x0101010101010101
	highs = 0x8080808080808080
)

// special has the high bit of the lowest byte of x set that is a quote, a
// backslash, a control character or beyond ASCII. Bits of higher bytes may be
// wrong: a borrow goes upwards.
func special(x uint64) uint64 {
	quote := x ^ ones*'"'
	slash := x ^ ones*'\\'
	return (x | (x - ones*' ') | (quote - ones) | (slash - ones)) & highs
}

// str consumes a string and says whether it has escapes.
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

// oddLen is the length of what a string has beside plain characters and short
// escapes: a \u escape, or a run of characters beyond ASCII.
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

// runesLen is the length of the characters beyond ASCII that text begins with; 0
// if the first is invalid.
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
