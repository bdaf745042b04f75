package jsonwalk

import (
	"bytes"
	"slices"
	"unicode/utf16"
	"unicode/utf8"
)

// AppendString appends the content of a JSON string to dst. The string must be valid, like
// those that [Walker.Raw] returns; values of other types are ignored. A lone surrogate,
// which JavaScript writes for a text that was cut inside a character, becomes U+FFFD.
func AppendString(dst, raw []byte) []byte {
	if len(raw) < 2 || raw[0] != '"' {
		return dst
	}
	return appendUnescaped(slices.Grow(dst, len(raw)), raw[1:len(raw)-1])
}

// appendUnescaped appends the content of a valid string, given without its quotes.
func appendUnescaped(dst, content []byte) []byte {
	for {
		i := bytes.IndexByte(content, '\\')
		if i < 0 {
			return append(dst, content...)
		}
		dst = append(dst, content[:i]...)
		content = content[i:]
		if c := unescaped[content[1]]; c != 0 {
			dst = append(dst, c)
			content = content[2:]
			continue
		}
		r, _ := hex4(content)
		content = content[6:]
		if utf16.IsSurrogate(r) {
			low, ok := hex4(content)
			pair := utf16.DecodeRune(r, low)
			if r = utf8.RuneError; ok && pair != utf8.RuneError {
				r = pair
				content = content[6:]
			}
		}
		dst = utf8.AppendRune(dst, r)
	}
}

// unescaped maps the letter of a two-character escape to the character that it means.
var unescaped = [256]byte{
	'"': '"', '\\': '\\', '/': '/', 'b': '\b', 'f': '\f', 'n': '\n', 'r': '\r', 't': '\t',
}

// hex4 reads \uXXXX at the beginning of text.
func hex4(text []byte) (r rune, ok bool) {
	if len(text) < 6 || text[0] != '\\' || text[1] != 'u' {
		return 0, false
	}
	for _, c := range text[2:6] {
		switch {
		case '0' <= c && c <= '9':
			c -= '0'
		case 'a' <= c|0x20 && c|0x20 <= 'f':
			c = c | 0x20 - 'a' + 10
		default:
			return 0, false
		}
		r = r<<4 | rune(c)
	}
	return r, true
}
