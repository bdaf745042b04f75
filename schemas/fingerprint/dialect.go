package fingerprint

import (
	"bytes"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
)

// byteOrderMark is U+FEFF in UTF-8.
var byteOrderMark = []byte("\uFEFF")

// notNumbers are the numbers that JSON lacks, as Python writes and reads them.
var notNumbers = [...]string{"NaN", "-Infinity", "Infinity"}

// Plain returns JSON without a byte order mark, and with 0 in place of NaN and Infinity, which
// strict parsers reject, and reports whether it has changed the text. Other faults stay.
func Plain(text []byte) (plain []byte, changed bool) {
	plain = bytes.TrimPrefix(text, byteOrderMark)
	changed, owned := len(plain) < len(text), false
	for i := 0; i < len(plain); i++ {
		switch plain[i] {
		case '"':
			i = endOfString(plain, i)
		case 'N', 'I', '-':
			n := notNumber(plain[i:])
			if n == 0 {
				continue
			}
			if !owned {
				plain, owned, changed = bytes.Clone(plain), true, true
			}
			copy(plain[i:], "0"+strings.Repeat(" ", n-1))
			i += n - 1
		}
	}
	return plain, changed
}

// endOfString returns the index of the quote that ends the string which begins at i, or an
// index after the text.
func endOfString(text []byte, i int) int {
	for i++; i < len(text) && text[i] != '"'; i++ {
		if text[i] == '\\' {
			i++
		}
	}
	return i
}

func notNumber(text []byte) int {
	for _, word := range notNumbers {
		if bytes.HasPrefix(text, []byte(word)) {
			return len(word)
		}
	}
	return 0
}

// Dialect returns the digest of a body that [JSON] refuses, as the most lenient parsers read
// it: of a duplicate key the last value counts, all invalid UTF-8 is the same, and text after
// the value is ignored. A body that is no JSON even then is hashed as bytes, without the white
// space and zeros around it.
func Dialect(body []byte) Digest {
	plain, _ := Plain(body)
	if !utf8.Valid(plain) {
		plain = bytes.ToValidUTF8(plain, []byte(string(utf8.RuneError)))
	}
	c := Canon{last: true}
	defer c.release()
	c.src = *bytes.NewBuffer(plain)
	c.dec.Reset(&c.src, jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
	if d, err := c.value(&c.dec); err == nil {
		return d
	}
	return Bytes(bytes.Trim(plain, "\x00 \t\r\n"))
}
