package fingerprint

import (
	"bytes"
	"strconv"
)

// plainDigits is the longest integer that is written out in digits. Longer
// ones, and fractions, are written as digits and an exponent.
const plainDigits = 40

// appendNumber appends the canonical form of a valid JSON number. Numbers of equal value have
// the same form at any precision: there is no float64 in between, so 2^53+1 stays itself.
func appendNumber(dst, num []byte) []byte {
	if len(num) <= plainDigits && !bytes.ContainsAny(num, ".eE-") {
		return append(dst, num...) // JSON allows no leading zeros
	}
	unsigned := bytes.TrimPrefix(num, []byte("-"))
	digits, exp, err := scale(dst, unsigned)
	switch {
	case len(digits) == len(dst): // zero, and minus zero
		return append(digits, '0')
	case err != nil: // an exponent beyond all use: equal only to itself
		return append(append(digits[:len(dst)], '!'), num...)
	}
	if exp >= 0 && len(digits)-len(dst)+exp <= plainDigits {
		for range exp {
			digits = append(digits, '0')
		}
	} else {
		digits = strconv.AppendInt(append(digits, 'e'), int64(exp), 10)
	}
	if len(unsigned) < len(num) {
		digits = append(digits, '-')
	}
	return digits
}

// scale appends the significant digits of num to dst, without leading or
// trailing zeros, and returns the power of ten that they are multiplied by. It
// fails when the exponent does not fit 32 bits.
func scale(dst, num []byte) (digits []byte, exp int, err error) {
	mantissa := num
	if i := bytes.IndexAny(num, "eE"); i >= 0 {
		var exp64 int64
		mantissa = num[:i]
		exp64, err = strconv.ParseInt(string(num[i+1:]), 10, 32)
		exp = int(exp64)
	}
	digits = dst
	point := false
	for _, ch := range mantissa {
		if ch == '.' {
			point = true
			continue
		}
		if point {
			exp--
		}
		if ch != '0' || len(digits) > len(dst) {
			digits = append(digits, ch)
		}
	}
	for len(digits) > len(dst) && digits[len(digits)-1] == '0' {
		digits = digits[:len(digits)-1]
		exp++
	}
	return digits, exp, err
}
