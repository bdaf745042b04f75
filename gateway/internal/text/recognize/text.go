package recognize

import (
	"bytes"
	"encoding/binary"
	"unicode"
	"unicode/utf8"

	"github.com/unloop/unloop/schemas/fingerprint"
)

// AppendText appends s normalized for comparisons of prompts: in lower case, with one space
// for each run of white space, without white space at its ends and without invisible
// characters.
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

// AppendSystem appends s as [AppendText] does, with a placeholder for each timestamp and
// UUID: a clock in a system prompt must not make each request look new.
func AppendSystem(dst, s []byte) []byte {
	f := folder{dst: dst, start: len(dst)}
	systemScanner.split(bytes.TrimSpace(s), func(part []byte, volatile bool) {
		if volatile {
			f.dst = append(f.dst, placeholder...)
			return
		}
		f.fold(part)
	})
	return f.end()
}

// Result returns the digest of a tool's result in lower case, without the white space around
// it.
func (h *Hasher) Result(s []byte) fingerprint.Digest {
	h.scratch = appendLower(h.scratch[:0], bytes.TrimSpace(s))
	return fingerprint.String(h.scratch)
}

// Lines returns the digest of s as written by [AppendLines].
func (h *Hasher) Lines(s []byte) fingerprint.Digest {
	h.scratch = AppendLines(h.scratch[:0], s)
	return fingerprint.String(h.scratch)
}

// Text returns the digest of s as written by [AppendText].
func (h *Hasher) Text(s []byte) fingerprint.Digest { return fingerprint.String(h.text(s)) }

// text returns s as written by [AppendText]. It keeps the last result, because several
// digests of one message are wanted one after the other.
func (h *Hasher) text(s []byte) []byte {
	if !bytes.Equal(s, h.raw) {
		h.raw, h.folded = append(h.raw[:0], s...), AppendText(h.folded[:0], s)
	}
	return h.folded
}

// System returns the digest of s as written by [AppendSystem].
func (h *Hasher) System(s []byte) fingerprint.Digest {
	h.scratch = AppendSystem(h.scratch[:0], s)
	return fingerprint.String(h.scratch)
}

// appendLower is bytes.ToLower without an allocation, and with ASCII handled eight bytes at
// a time. It keeps invalid UTF-8 unchanged.
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

// appendASCII appends s with ASCII capitals in lower case.
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

// lower8 returns eight bytes with ASCII capitals in lower case.
func lower8(x uint64) uint64 {
	low := x &^ highs
	capitals := (low + (0x80-'A')*ones) &^ (low + (0x7f-'Z')*ones) &^ x & highs
	return x | capitals>>2
}

// Said returns the digest that identifies a human message within its session: of its text as
// written by [AppendText], without numbers, since a harness may count down.
func Said(text []byte) fingerprint.Digest {
	var h Hasher
	return h.Said(text)
}

// Said is the function Said with h's buffers.
func (h *Hasher) Said(text []byte) fingerprint.Digest {
	h.scratch = append(h.scratch[:0], h.text(text)...)
	return fingerprint.Said(WithoutNumbers(h.scratch))
}
