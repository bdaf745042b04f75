package recognize

import (
	"encoding/binary"
	"math/bits"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// folder appends text to dst so that texts that look the same become the same.
type folder struct {
	dst   []byte
	start int // of the text in dst
	// lines keeps line ends and the indentation of lines.
	lines bool
	// indented says that only white space followed the last line end.
	indented bool
}

// plainASCII maps visible ASCII characters to lower case, and other bytes to 0.
var plainASCII = func() (t [256]byte) {
	for c := byte('!'); c <= '~'; c++ {
		t[c] = c
		if 'A' <= c && c <= 'Z' {
			t[c] = c + ('a' - 'A')
		}
	}
	return t
}()

// fold appends a text, or a part of one. It keeps invalid UTF-8 unchanged.
func (f *folder) fold(s []byte) {
	for len(s) > 0 {
		ch := s[0]
		switch {
		case plainASCII[ch] != 0:
			s = s[f.plain(s):]
			continue
		case ch >= utf8.RuneSelf:
			s = s[f.wide(s):]
			continue
		case ch == ' ' || '\t' <= ch && ch <= '\r':
			f.space(ch)
		}
		s = s[1:]
	}
}

// plain appends the visible ASCII characters at the beginning of s, and single spaces
// between them, and returns their number. s begins with a visible character.
func (f *folder) plain(s []byte) (n int) {
	f.dst, f.indented = slices.Grow(f.dst, len(s)), false
	room := f.dst[len(f.dst):][:len(s)]
	for spaced := uint64(0); n+8 <= len(s); n += 8 {
		x := binary.LittleEndian.Uint64(s[n:])
		binary.LittleEndian.PutUint64(room[n:], lower8(x))
		low := x &^ highs
		spaces := ^(low ^ ' '*ones + 0x7f*ones) & highs
		others := ^(low+0x60*ones)&highs | (low+ones)&highs | x&highs | spaces&(spaces<<8|spaced)
		if others != 0 {
			n += bits.TrailingZeros64(others) / 8
			f.dst = f.dst[:len(f.dst)+n]
			return n
		}
		spaced = spaces >> 56
	}
	for ; n < len(s); n++ {
		ch := plainASCII[s[n]]
		if ch == 0 {
			if s[n] != ' ' || room[n-1] == ' ' {
				break
			}
			ch = ' '
		}
		room[n] = ch
	}
	f.dst = f.dst[:len(f.dst)+n]
	return n
}

// wide appends the non-ASCII character at the beginning of s, and returns its size.
func (f *folder) wide(s []byte) int {
	r, size := utf8.DecodeRune(s)
	switch {
	case r == utf8.RuneError && size == 1:
		f.dst, f.indented = append(f.dst, s[0]), false
	case unicode.IsSpace(r):
		f.space(' ')
	case !invisible(r):
		f.dst, f.indented = utf8.AppendRune(f.dst, unicode.ToLower(r)), false
	}
	return size
}

// space handles a white space character.
func (f *folder) space(ch byte) {
	switch n := len(f.dst); {
	case f.lines && ch == '\n':
		f.trim(" \t")
		if n = len(f.dst); n > f.start && f.dst[n-1] != '\n' {
			f.dst = append(f.dst, '\n')
		}
		f.indented = true
	case n == f.start:
	case f.lines && f.indented:
		if ch != '\t' {
			ch = ' '
		}
		f.dst = append(f.dst, ch)
	case f.dst[n-1] != ' ':
		f.dst = append(f.dst, ' ')
	}
}

// trim drops bytes in cut from the end of the text.
func (f *folder) trim(cut string) {
	for n := len(f.dst); n > f.start && strings.IndexByte(cut, f.dst[n-1]) >= 0; n-- {
		f.dst = f.dst[:n-1]
	}
}

// end returns dst without white space at the end.
func (f *folder) end() []byte {
	f.trim(" \t\n")
	return f.dst
}

// invisible reports whether a non-ASCII character is invisible: controls, direction marks,
// joiners, zero-width spaces, tags, and variation selectors.
func invisible(r rune) bool {
	switch {
	case r <= 0x9f, r == 0xad, r == 0x34f, r == 0x61c, r == 0x3164, r == 0xfeff, r == 0xffa0:
		return true
	case r < 0x115f:
		return false
	case r >= 0x115f && r <= 0x1160, r >= 0x17b4 && r <= 0x17b5, r >= 0x180b && r <= 0x180f,
		r >= 0x200b && r <= 0x200f, r >= 0x202a && r <= 0x202e, r >= 0x2060 && r <= 0x206f,
		r >= 0xfe00 && r <= 0xfe0f, r >= 0xfff9 && r <= 0xfffb, r >= 0x1d173 && r <= 0x1d17a, r >= 0xe0000 && r <= 0xe0fff:
		return true
	}
	return false
}
