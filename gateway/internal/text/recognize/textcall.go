package recognize

import (
	"bytes"
	"encoding/binary"

	"github.com/unloop/unloop/schemas/fingerprint"
)

const domainTextCall = "unloop/textcall/2"

// TextCall returns the digest of a call that an agent wrote as text: of the tool's name and
// the command as written by [AppendCommand].
func TextCall(tool string, command []byte) fingerprint.Digest {
	b := fingerprint.AppendField(fingerprint.AppendField(nil, []byte(domainTextCall)), []byte(tool))
	return fingerprint.Sum(fingerprint.AppendField(b, AppendCommand(nil, command)))
}

// AppendCommand appends a command with one space for each run of spaces and tabs within a
// line, without white space at the ends of lines and around the whole, and without leading
// comment lines. It keeps the indentation of lines, which matters in Python, YAML and diffs,
// quoted text, and everything from a here-document on.
func AppendCommand(dst, command []byte) []byte {
	command = withoutComments(bytes.TrimRight(command, " \t\r\n"))
	quote, indented := byte(0), true
	for i := range command {
		c := command[i]
		switch {
		case quote != 0:
			if c == quote {
				quote = 0
			}
		case c == '<' && i+1 < len(command) && command[i+1] == '<':
			return append(dst, command[i:]...)
		case c == '\n':
			dst, indented = bytes.TrimRight(dst, " \t\r"), true
		case c == ' ' || c == '\t' || c == '\r':
			if indented {
				break
			}
			if n := len(dst); n > 0 && dst[n-1] == ' ' {
				continue
			}
			c = ' '
		default:
			indented = false
			if c == '"' || c == '\'' {
				quote = c
			}
		}
		dst = append(dst, c)
	}
	return dst
}

// withoutComments cuts leading empty lines and leading lines with # off a command, unless
// it has no other lines.
func withoutComments(command []byte) []byte {
	rest := bytes.TrimLeft(command, "\r\n")
	whole := rest
	for len(rest) > 0 && rest[0] == '#' {
		_, rest, _ = bytes.Cut(rest, []byte("\n"))
		rest = bytes.TrimLeft(rest, "\r\n")
	}
	if len(rest) == 0 {
		return whole
	}
	return rest
}

// WithoutNumbers replaces each run of digits in text with one 0, in place.
func WithoutNumbers(text []byte) []byte {
	n, number := 0, false
	for i := 0; i < len(text); i++ {
		for i+8 < len(text) {
			x := binary.LittleEndian.Uint64(text[i:])
			low := x &^ highs
			if (low+(0x80-'0')*ones)&^(low+(0x7f-'9')*ones)&^x&highs != 0 {
				break
			}
			binary.LittleEndian.PutUint64(text[n:], x)
			i, n, number = i+8, n+8, false
		}
		c := text[i]
		isDigit := class[c] == digit
		if isDigit {
			if number {
				continue
			}
			c = '0'
		}
		text[n], number = c, isDigit
		n++
	}
	return text[:n]
}
