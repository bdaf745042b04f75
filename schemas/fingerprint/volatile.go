package fingerprint

import "bytes"

// Kinds is a set of the kinds of text that change from one run of a tool to the
// next although nothing happened.
type Kinds uint8

// The kinds. They are recognised by a hand-written scanner in one pass, since
// results may be megabytes; see the functions beside it for the exact forms.
const (
	// Timestamps: ISO 8601 and its relatives, RFC 1123, ctime, syslog and
	// access-log dates with a time of day; times of day with seconds; Unix times
	// in s, ms, µs and ns between 2017 and 2042. A date alone is content.
	Timestamps Kinds = 1 << iota
	// UUIDs in their usual form with four hyphens. Other long hexadecimal
	// numbers stay: a new commit hash is progress.
	UUIDs
	// RequestIDs: what follows a name such as request_id, X-Request-Id or traceId,
	// and ids that begin with req_, resp_, msg_ or chatcmpl-.
	RequestIDs
	// Durations: 12ms, 1.5s, 1m30s, 3 seconds.
	Durations
	// Addresses: 0x and at least six hexadecimal digits, as in "<Foo at 0x7f3a90>".
	Addresses

	// AllKinds is what is removed by default.
	AllKinds = Timestamps | UUIDs | RequestIDs | Durations | Addresses
)

// placeholder stands for what was removed, so that "took 5ms" stays another
// text than "took ".
var placeholder = []byte{0}

// scanner finds volatile parts. Loose also takes times of day without seconds,
// which in a result may be content but in a system prompt are a clock.
type scanner struct {
	kinds Kinds
	loose bool
}

var systemScanner = scanner{kinds: Timestamps | UUIDs, loose: true}

// scan calls emit with the parts of text that stay, in order, and with a
// placeholder for each that does not. The parts are slices of text.
func (sc scanner) scan(text []byte, emit func([]byte)) {
	kept, i := 0, 0
	for i < len(text) {
		if class[text[i]] == other {
			i++
			continue
		}
		start, end := sc.match(text, i)
		if end > start {
			if kept < start {
				emit(text[kept:start])
			}
			emit(placeholder)
			kept, i = end, end
			continue
		}
		for i++; i < len(text) && class[text[i]] != other; i++ {
		}
	}
	if kept < len(text) {
		emit(text[kept:])
	}
}

// match looks for a volatile part at the beginning of the word at i. What it
// finds may begin later: the value after "request_id=".
func (sc scanner) match(text []byte, i int) (start, end int) {
	if class[text[i]] == digit {
		return i, sc.number(text, i)
	}
	switch text[i] {
	case 'a', 'b', 'c', 'd', 'e', 'f', 'A', 'B', 'C', 'D', 'E', 'F':
		if end := uuidAt(text, i); end > 0 && sc.kinds&UUIDs != 0 {
			return i, end
		}
	}
	if sc.kinds&Timestamps != 0 {
		if end := namedDate(text, i); end > 0 {
			return i, end
		}
	}
	if sc.kinds&RequestIDs != 0 {
		return requestID(text, i)
	}
	return 0, 0
}

// number tries everything that begins with a digit, the longest forms first.
func (sc scanner) number(text []byte, i int) int {
	if sc.kinds&UUIDs != 0 {
		if end := uuidAt(text, i); end > 0 {
			return end
		}
	}
	if sc.kinds&Timestamps != 0 {
		if end := sc.timestamp(text, i); end > 0 {
			return end
		}
	}
	if sc.kinds&Durations != 0 {
		if end := durationAt(text, i); end > 0 {
			return end
		}
	}
	if sc.kinds&Addresses != 0 {
		return addressAt(text, i)
	}
	return 0
}

// uuidAt returns the end of the UUID at i, or 0.
func uuidAt(text []byte, i int) int {
	const size = 36
	if i+size > len(text) || text[i+8] != '-' || wordAt(text, i+size) {
		return 0
	}
	for k, ch := range text[i : i+size] {
		if k == 8 || k == 13 || k == 18 || k == 23 {
			if ch != '-' {
				return 0
			}
		} else if !isHex(ch) {
			return 0
		}
	}
	return i + size
}

// addressAt returns the end of the hexadecimal address at i, or 0.
func addressAt(text []byte, i int) int {
	if i+2 >= len(text) || text[i] != '0' || text[i+1]|0x20 != 'x' {
		return 0
	}
	end := i + 2
	for end < len(text) && isHex(text[end]) {
		end++
	}
	if end-i-2 < 6 || wordAt(text, end) {
		return 0
	}
	return end
}

// units are the words that make a number a duration. Single letters must follow
// the digits at once, so that "5 m" stays a length.
var units = [...]string{
	"milliseconds", "millisecond", "microseconds", "nanoseconds", "seconds", "second", "minutes", "minute",
	"hours", "hour", "msecs", "msec", "secs", "sec", "mins", "min", "hrs", "hr",
	"ms", "us", "ns", "\u00b5s", "\u03bcs", "s", "m", "h",
}

// durationAt returns the end of the duration at i, or 0: one or more numbers,
// each with a unit, as in 1h2m3.5s.
func durationAt(text []byte, i int) int {
	end := 0
	for {
		k := skipDigits(text, i)
		if k == i {
			return end
		}
		if k+1 < len(text) && text[k] == '.' && class[text[k+1]] == digit {
			k = skipDigits(text, k+1)
		}
		if i = unitAt(text, k); i == 0 {
			return end
		}
		if !wordAt(text, i) {
			end = i
		}
	}
}

func unitAt(text []byte, i int) int {
	spaced := i < len(text) && text[i] == ' '
	if spaced {
		i++
	}
	if i >= len(text) {
		return 0
	}
	for _, u := range units {
		if text[i] == u[0] && hasPrefix(text[i:], u) && (len(u) > 1 || !spaced) {
			if k := i + len(u); !letterAt(text, k) {
				return k
			}
		}
	}
	return 0
}

// idNames are the words before "id" that make it one of a request.
var idNames = [...]string{"request", "req", "trace", "span", "correlation", "invocation"}

// idPrefixes begin ids that vendors give to each request.
var idPrefixes = [...]string{"req_", "resp_", "msg_", "chatcmpl-"}

// requestID returns the span of the request id that stands at the word at i, or
// that this word names.
func requestID(text []byte, i int) (start, end int) {
	switch text[i] {
	case 'r', 'm', 'c':
		for _, p := range idPrefixes {
			if hasPrefix(text[i:], p) {
				if end := idToken(text, i); end-i >= len(p)+8 {
					return i, end
				}
			}
		}
	}
	w := i
	for w < len(text) && class[text[w]] != other {
		w++
	}
	if w-i < 2 || text[w-1]|0x20 != 'd' || text[w-2]|0x20 != 'i' || !namesRequest(text[:w-2]) {
		return 0, 0
	}
	v := w
	for v < len(text) && v-w < 6 && bytes.IndexByte([]byte(`"'\:= `), text[v]) >= 0 {
		v++
	}
	if end := idToken(text, v); v > w && end-v >= 4 && bytes.ContainsAny(text[v:end], "0123456789") {
		return v, end
	}
	return 0, 0
}

// namesRequest reports whether before, the text up to "id", ends in one of
// idNames and at most one separator.
func namesRequest(before []byte) bool {
	if n := len(before); n > 0 && (before[n-1] == '-' || before[n-1] == '_' || before[n-1] == ' ') {
		before = before[:n-1]
	}
	for _, name := range idNames {
		if n := len(before) - len(name); n >= 0 && equalFold(before[n:], name) {
			return n == 0 || class[before[n-1]] != letter || before[n-1] == '_'
		}
	}
	return false
}

// idToken returns the end of the id that begins at i.
func idToken(text []byte, i int) int {
	for i < len(text) && (class[text[i]] != other || text[i] == '-' || text[i] == '.' && wordAt(text, i+1)) {
		i++
	}
	return i
}
