package recognize

import (
	"bytes"
	"encoding/binary"
	"unicode"
	"unicode/utf8"

	"github.com/unloop/unloop/schemas/fingerprint"
)

// AppendText appends s in the form in which prompts are compared: lower-case, each
// run of white space as one space, without white space at its ends and without
// characters that nobody sees.
func AppendText(dst, s []byte) []byte {
	f := folder{dst: dst, start: len(dst)}
	f.fold(s)
	return f.end()
}

// AppendLines appends s as [AppendText] does, line by line: lines keep their
// indentation, and empty ones are left out.
func AppendLines(dst, s []byte) []byte {
	f := folder{dst: dst, start: len(dst), lines: true}
	f.fold(s)
	return f.end()
}

// AppendSystem appends s as [AppendText] does, with a
// placeholder byte for each timestamp and UUID: a clock in a system prompt must
// not make each request look new.
func AppendSystem(dst, s []byte) []byte {
	f := folder{dst: dst, start: len(dst)}
	systemScanner.scan(bytes.TrimSpace(s), func(part []byte) {
		if len(part) == 1 && part[0] == 0 {
			f.dst = append(f.dst, 0)
			return
		}
		f.fold(part)
	})
	return f.end()
}

// Result returns the digest of what a tool answered: lower-case, without the white
// space around it.
func (h *Hasher) Result(s []byte) fingerprint.Digest {
	h.scratch = appendLower(h.scratch[:0], bytes.TrimSpace(s))
	return fingerprint.String(h.scratch)
}

// Lines returns the digest of s as [AppendLines] gives it.
func (h *Hasher) Lines(s []byte) fingerprint.Digest {
	h.scratch = AppendLines(h.scratch[:0], s)
	return fingerprint.String(h.scratch)
}

// Text returns the digest of s as [AppendText] gives it.
func (h *Hasher) Text(s []byte) fingerprint.Digest { return fingerprint.String(h.text(s)) }

// text returns s as [AppendText] gives it. The same message is asked for in several ways, one
// after the other, so that the last one is kept.
func (h *Hasher) text(s []byte) []byte {
	if !bytes.Equal(s, h.raw) {
		h.raw, h.folded = append(h.raw[:0], s...), AppendText(h.folded[:0], s)
	}
	return h.folded
}

// System returns the digest of s as [AppendSystem] gives it.
func (h *Hasher) System(s []byte) fingerprint.Digest {
	h.scratch = AppendSystem(h.scratch[:0], s)
	return fingerprint.String(h.scratch)
}

// appendLower is bytes.ToLower without its allocation, and with ASCII, which
// most text is, handled many bytes at a time. Invalid UTF-8 passes as it is.
func appendLower(dst, s []byte) []byte {
	for len(s) > 0 {
		n := 0
		for n+8 <= len(s) && binary.LittleEndian.Uint64(s[n:])&highs == 0 {
			n += 8
		}
		for n < len(s) && s[n] < utf8.RuneSelf {
			n++
		}
		dst = appendASCII(dst, s[:n])
		if s = s[n:]; len(s) == 0 {
			break
		}
		r, size := utf8.DecodeRune(s)
		if r == utf8.RuneError && size == 1 {
			dst = append(dst, s[0])
		} else {
			dst = utf8.AppendRune(dst, unicode.ToLower(r))
		}
		s = s[size:]
	}
	return dst
}

// appendASCII appends s with the capitals of ASCII in lower case.
func appendASCII(dst, s []byte) []byte {
	start := len(dst)
	dst = append(dst, s...)
	rest := dst[start:]
	for ; len(rest) >= 8; rest = rest[8:] {
		binary.LittleEndian.PutUint64(rest, lower8(binary.LittleEndian.Uint64(rest)))
	}
	for i, ch := range rest {
		if 'A' <= ch && ch <= 'Z' {
			rest[i] = ch + ('a' - 'A')
		}
	}
	return dst
}

// ones and highs repeat one byte eight times, to handle eight bytes at once.
const ones, highs = 0x0101010101010101, 0x8080808080808080

// lower8 returns eight bytes with the capitals of ASCII in lower case.
func lower8(x uint64) uint64 {
	low := x &^ highs
	capitals := (low + (0x80-'A')*ones) &^ (low + (0x7f-'Z')*ones) &^ x & highs
	return x | capitals>>2
}

// Said returns the digest that identifies a human message within its session: that of its
// text from [AppendText] without numbers, which differ if a harness counts down.
func Said(text []byte) fingerprint.Digest {
	var h Hasher
	return h.Said(text)
}

// Said is the package's function Said on h's scratch space.
func (h *Hasher) Said(text []byte) fingerprint.Digest {
	h.scratch = append(h.scratch[:0], h.text(text)...)
	return fingerprint.Said(WithoutNumbers(h.scratch))
}
