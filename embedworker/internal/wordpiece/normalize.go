package wordpiece

import (
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// normalizer is BERT's: clean-up, spaces around ideographs, lower case, and
// accents off, each as the tokenizer's file asks.
type normalizer struct {
	cleanText    bool
	spaceCJK     bool
	lowercase    bool
	stripAccents bool
}

// append adds the normalized text to dst. Bytes that are not UTF-8 count as
// U+FFFD, which cleaning drops. scratch is used while accents are taken off;
// both buffers are returned for reuse.
func (n *normalizer) append(dst, scratch []byte, text string) (out, buffer []byte) {
	table := classes()
	from, ascii := len(dst), true
	for i := 0; i < len(text); {
		if c := text[i]; c < utf8.RuneSelf {
			dst = n.appendASCII(dst, c)
			i++
			continue
		}
		ascii = false
		r, size := utf8.DecodeRuneInString(text[i:])
		dst = n.appendRune(dst, from, table, r, text[i+size:])
		i += size
	}
	if ascii || !n.stripAccents {
		return dst, scratch
	}
	return withoutAccents(dst, scratch[:0], from, table)
}

func (n *normalizer) appendASCII(dst []byte, c byte) []byte {
	switch {
	case n.lowercase && 'A' <= c && c <= 'Z':
		return append(dst, c+'a'-'A')
	case !n.cleanText || ' ' <= c && c < 0x7F:
		return append(dst, c)
	case c == '\t' || c == '\n' || c == '\r':
		return append(dst, ' ')
	}
	return dst
}

// appendRune adds one character from outside ASCII; rest is the text after it.
func (n *normalizer) appendRune(dst []byte, from int, table *classTable, r rune, rest string) []byte {
	class := table.of(r)
	if n.cleanText {
		if class&classControl != 0 {
			return dst
		}
		if class&classSpace != 0 {
			return append(dst, ' ')
		}
	}
	if n.spaceCJK && class&classCJK != 0 {
		return append(utf8.AppendRune(append(dst, ' '), r), ' ')
	}
	if n.lowercase {
		return n.appendLower(dst, from, table, r, rest)
	}
	return utf8.AppendRune(dst, r)
}

// appendLower follows Unicode's full lower-casing, which differs from the
// simple one in two letters: the dotted capital I, and the sigma at the end of
// a word.
func (n *normalizer) appendLower(dst []byte, from int, table *classTable, r rune, rest string) []byte {
	switch r {
	case 'İ':
		return append(dst, "i\u0307"...)
	case 'Σ':
		if casedBefore(dst[from:], table) && !n.casedAfter(rest, table) {
			return append(dst, "ς"...)
		}
	}
	return utf8.AppendRune(dst, unicode.ToLower(r))
}

// casedBefore reports whether a cased letter comes right before, marks aside.
func casedBefore(done []byte, table *classTable) bool {
	for len(done) > 0 {
		r, size := utf8.DecodeLastRune(done)
		if class := table.of(r); class&classIgnorable == 0 {
			return class&classCased != 0
		}
		done = done[:len(done)-size]
	}
	return false
}

// casedAfter reports whether a cased letter comes right after, marks and
// characters that cleaning drops aside.
func (n *normalizer) casedAfter(rest string, table *classTable) bool {
	for _, r := range rest {
		class := table.of(r)
		dropped := n.cleanText && class&classControl != 0
		if class&classIgnorable == 0 && !dropped {
			return class&classCased != 0
		}
	}
	return false
}

// withoutAccents decomposes text[from:] canonically and drops the nonspacing
// marks.
func withoutAccents(text, scratch []byte, from int, table *classTable) (out, buffer []byte) {
	tail := text[from:]
	if !norm.NFD.IsNormal(tail) {
		scratch = norm.NFD.Append(scratch, tail...)
		text = append(text[:from], scratch...)
		tail = text[from:]
	}
	kept := tail[:0]
	for i := 0; i < len(tail); {
		size := 1
		if tail[i] >= utf8.RuneSelf {
			var r rune
			r, size = utf8.DecodeRune(tail[i:])
			if table.of(r)&classAccent != 0 {
				i += size
				continue
			}
		}
		kept = append(kept, tail[i:i+size]...)
		i += size
	}
	return text[:from+len(kept)], scratch
}
