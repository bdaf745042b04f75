package recognize

// timestamp returns the end of the time that begins with the digits text[i:k], or 0.
func (sc scanner) timestamp(text []byte, i, k int) int {
	if i > 0 && text[i-1] == '.' { // inside a decimal fraction or a version
		return 0
	}
	if k-i >= 10 {
		return epochAt(text, i, k)
	}
	if k == len(text) {
		return 0
	}
	switch text[k] {
	case '-', '/', ' ':
		if end := numericDate(text, i); end > 0 {
			return clockAfter(text, end)
		}
	case 'T', 't':
		return compactStamp(text, i)
	case ':':
		if i > 1 && text[i-1] == ':' && isHex(text[i-2]) { // a MAC or IPv6 address
			return 0
		}
		if end, exact := clockAt(text, i); end > 0 && (exact || sc.loose) {
			return zoneAfter(text, end)
		}
	}
	return 0
}

// numericDate returns the end of 2006-01-02, 2006/01/02, 1/2/2006, 02/Jan/2006
// or 2 Jan 2006, or 0.
func numericDate(text []byte, i int) int {
	a := skipDigits(text, i)
	if a+1 >= len(text) || !isDateSep(text[a]) {
		return 0
	}
	if m := monthAt(text, a+1); m > 0 && a-i <= 2 {
		if m < len(text) && isDateSep(text[m]) && skipDigits(text, m+1) == m+5 {
			return m + 5
		}
		return 0
	}
	b := skipDigits(text, a+1)
	if text[a] == ' ' || b >= len(text) || text[b] != text[a] || b-a < 2 || b-a > 3 {
		return 0
	}
	c := skipDigits(text, b+1)
	if (a-i == 4 && c-b-1 <= 2 || a-i <= 2 && c-b-1 == 4) && c-b > 1 {
		return c
	}
	return 0
}

// namedDate returns the end of a time that begins with the name of a day or month, or 0:
// "Mon, 02 Jan 2006 15:04:05 GMT", "Mon Jan  2 15:04:05 2006", "Jan  2 15:04:05",
// "January 2, 2006 at 3:04 PM".
func namedDate(text []byte, i int) int {
	if d := nameAt(text, i, dayName); d > 0 {
		for d < len(text) && (text[d] == ',' || text[d] == ' ') {
			d++
		}
		i = d
		if end := numericDate(text, i); end > 0 {
			return clockAfter(text, end)
		}
	}
	m := monthAt(text, i)
	if m == 0 {
		return 0
	}
	for m < len(text) && text[m] == ' ' {
		m++
	}
	d := skipDigits(text, m)
	if d == m || d-m > 2 {
		return 0
	}
	if d+6 <= len(text) && text[d] == ',' && text[d+1] == ' ' && skipDigits(text, d+2) == d+6 {
		d += 6
	}
	end := clockAfter(text, d)
	if end > 0 && end+5 <= len(text) && text[end] == ' ' && skipDigits(text, end+1) == end+5 {
		end += 5 // ctime has the year last
	}
	return end
}

// clockAfter returns the end of the time of day, with its zone, after a date that ends at
// i, or 0.
func clockAfter(text []byte, i int) int {
	if i < len(text) && text[i] == ',' {
		i++
	}
	switch {
	case i < len(text) && (text[i] == 'T' || text[i] == 't' || text[i] == ' ' || text[i] == ':'):
		i++
	default:
		return 0
	}
	if hasPrefix(text[i:], "at ") {
		i += len("at ")
	}
	end, _ := clockAt(text, i)
	if end == 0 {
		return 0
	}
	return zoneAfter(text, end)
}

// clockAt returns the end of the time of day at i, or 0. It is exact if it has seconds, or
// AM or PM, and so can hardly be anything else.
func clockAt(text []byte, i int) (end int, exact bool) {
	h := skipDigits(text, i)
	if h == i || h-i > 2 || h+3 > len(text) || text[h] != ':' || skipDigits(text, h+1) != h+3 {
		return 0, false
	}
	end = h + 3
	if end+3 <= len(text) && text[end] == ':' && skipDigits(text, end+1) == end+3 {
		end, exact = end+3, true
		if end+1 < len(text) && (text[end] == '.' || text[end] == ',') && class[text[end+1]] == digit {
			end = skipDigits(text, end+1)
		}
	}
	m := skipSpace(text, end)
	if m+2 <= len(text) && (text[m]|0x20 == 'a' || text[m]|0x20 == 'p') && text[m+1]|0x20 == 'm' && !wordAt(text, m+2) {
		return m + 2, true
	}
	if end+1 < len(text) && text[end] == ':' && isHex(text[end+1]) { // a MAC or IPv6 address
		return 0, false
	}
	return end, exact
}

// zoneAfter returns the end of the zone after a time of day that ends at i, or i: Z, +02:00,
// -0700, UTC, GMT, and Go's "m=+0.001".
func zoneAfter(text []byte, i int) int {
	if i < len(text) && text[i] == 'Z' && !wordAt(text, i+1) {
		return i + 1
	}
	if end := offsetAt(text, skipSpace(text, i)); end > 0 {
		i = end
	}
	k := skipSpace(text, i)
	if (hasPrefix(text[k:], "UTC") || hasPrefix(text[k:], "GMT")) && !wordAt(text, k+3) {
		i = k + 3
	}
	if k := skipSpace(text, i); hasPrefix(text[k:], "m=") && k+2 < len(text) {
		end := skipDigits(text, k+3)
		if end < len(text) && text[end] == '.' {
			end = skipDigits(text, end+1)
		}
		return end
	}
	return i
}

// offsetAt returns the end of +hh:mm or +hhmm at i, or 0.
func offsetAt(text []byte, i int) int {
	if i >= len(text) || text[i] != '+' && text[i] != '-' {
		return 0
	}
	end := skipDigits(text, i+1)
	switch {
	case end-i == 5:
		return end
	case end-i == 3 && end < len(text) && text[end] == ':' && skipDigits(text, end+1) == end+3:
		return end + 3
	}
	return 0
}

// compactStamp returns the end of 20060102T150405 with an optional Z, or 0.
func compactStamp(text []byte, i int) int {
	if skipDigits(text, i) != i+8 || i+15 > len(text) || text[i+8]|0x20 != 't' || skipDigits(text, i+9) != i+15 {
		return 0
	}
	end := i + 15
	if end < len(text) && text[end] == 'Z' {
		end++
	}
	if wordAt(text, end) {
		return 0
	}
	return end
}

// epochAt returns the end of the Unix time that begins with the digits text[i:end], or 0:
// 10, 13, 16 or 19 digits that begin with 15 to 22. Seconds may have a fraction.
func epochAt(text []byte, i, end int) int {
	switch end - i {
	case 10, 13, 16, 19:
	default:
		return 0
	}
	if first := int(text[i]-'0')*10 + int(text[i+1]-'0'); first < 15 || first > 22 || wordAt(text, end) {
		return 0
	}
	if end-i == 10 {
		return skipFraction(text, end)
	}
	return end
}
