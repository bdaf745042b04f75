package recognize

import "bytes"

// Kinds is a set of kinds of volatile text, which differs between two runs of a tool
// although nothing has changed.
type Kinds uint8

// The kinds. A hand-written scanner finds them in one pass, since results may be
// megabytes; its functions document the exact forms.
const (
	// Timestamps: ISO 8601 and its relatives, RFC 1123, ctime, syslog and
	// access-log dates with a time of day; times of day with seconds; Unix times
	// in s, ms, µs and ns between 2017 and 2042. A date alone is content.
	Timestamps Kinds = 1 << iota
	// UUIDs in their usual form with four hyphens. Other long hexadecimal
	// numbers stay: a new commit hash is progress.
	UUIDs
	// RequestIDs: values after a name such as request_id, X-Request-Id or traceId, and ids
	// that begin with req_, resp_, msg_ or chatcmpl-.
	RequestIDs
	// Durations: 12ms, 1.5s, 1m30s, 3 seconds, 1.137 s, "Time: 2 s", "Time: 0.012",
	// "Time: 00:01.234", and rates: 45 runs/s.
	Durations
	// Addresses: 0x and at least six hexadecimal digits, as in "<Foo at 0x7f3a90>".
	Addresses
	// Runtime: values that a system generates for each run: ids of processes, threads and
	// shells after their names (pid 4711, "chunk_id": "860463"), measured times after theirs
	// ("wall_time_seconds": 0.02), the line number in a shell's error (bash: line 12: x:
	// command not found), ports above 32767 of this host, hashes of mangled symbols, names of
	// temporary files and of Kubernetes pods, and ids that browser tools give to elements
	// (ref=s2e9, uid=3_12).
	Runtime

	// AllKinds are removed by default.
	AllKinds = Timestamps | UUIDs | RequestIDs | Durations | Addresses | Runtime
)

// placeholder replaces a removed part, so that "took 5ms" still differs from "took ".
var placeholder = []byte{0}

// scanner finds volatile parts. A loose scanner also finds times of day without seconds:
// a result may be about them, but in a system prompt they are a clock.
type scanner struct {
	kinds Kinds
	loose bool
}

var (
	systemScanner = scanner{kinds: Timestamps | UUIDs, loose: true}
	clockScanner  = scanner{kinds: Timestamps, loose: true}
)

// scan calls emit with the parts of text that stay, in order, and with a
// placeholder for each that does not. The parts are slices of text.
func (sc scanner) scan(text []byte, emit func([]byte)) {
	sc.split(text, func(part []byte, volatile bool) {
		if volatile {
			part = placeholder
		}
		emit(part)
	})
}

// split calls emit with all parts of text, in order, and with whether they are volatile.
func (sc scanner) split(text []byte, emit func(part []byte, volatile bool)) {
	kept, i := 0, 0
	for i < len(text) {
		var start, end, next int
		switch class[text[i]] {
		case other:
			i++
			continue
		case digit:
			start, end = i, sc.number(text, i)
			next = i + 1
		default:
			if next = skipWord(text, i+1); !isPlain(text, i, next) {
				start, end = sc.word(text, i, next)
			}
		}
		if end > start {
			if kept < start {
				emit(text[kept:start], false)
			}
			emit(text[start:end], true)
			kept, i = end, end
			continue
		}
		i = skipWord(text, next)
	}
	if kept < len(text) {
		emit(text[kept:], false)
	}
}

// word returns the span of a volatile part at the word text[i:w], which begins with a
// letter. The span may begin later, such as after "request_id=".
func (sc scanner) word(text []byte, i, w int) (start, end int) {
	n := w - i
	if n == 8 && w < len(text) && text[w] == '-' && sc.kinds&UUIDs != 0 {
		if end := uuidAt(text, i); end > 0 {
			return i, end
		}
	}
	if n < 2 {
		return 0, 0
	}
	if n > 2 && sc.kinds&Timestamps != 0 && nameOf(text[i], text[i+1], text[i+2]) != noName {
		return i, namedDate(text, i)
	}
	if sc.kinds&Runtime != 0 {
		if start, end := sc.runtimeWord(text, i, w); end > 0 {
			return start, end
		}
	}
	if sc.kinds&RequestIDs == 0 {
		return 0, 0
	}
	if text[w-1]|0x20 == 'd' && text[w-2]|0x20 == 'i' {
		return namedID(text, w)
	}
	if n > 3 && (text[i+3] == '_' || n > 4 && text[i+4] == '_' || n == 8) {
		return prefixedID(text, i)
	}
	return 0, 0
}

// runtimeWord returns the span of a generated value at the word text[i:w].
func (sc scanner) runtimeWord(text []byte, i, w int) (start, end int) {
	n := w - i
	switch c := text[w-1] | 0x20; {
	case c == 'd' && text[w-2]|0x20 == 'i':
		if start, end = processID(text, w, false); end > 0 {
			return start, end
		}
	case c == 's' && n > 2 && text[w-2]|0x20 == 'd' && text[w-3]|0x20 == 'i':
		return processID(text, w, true)
	}
	if start, end = shellLine(text, i, w); end > 0 {
		return start, end
	}
	if n == len("container") && equalFold(text[i:w], "container") {
		return containerID(text, w)
	}
	if n == 3 && (hasPrefix(text[i:], "ref") || hasPrefix(text[i:], "uid")) {
		return elementID(text, w)
	}
	if w < len(text) && n > 3 && (text[w] == '"' || text[w] == ':' || text[w] == '=' || text[w] == ' ') {
		if start, end = measured(text, i, w); end > 0 {
			return start, end
		}
	}
	if i > 0 && text[i-1] == '-' {
		if end = podSuffix(text, i); end > 0 {
			return i, end
		}
	}
	if n >= 6 {
		return randomName(text, i, w)
	}
	return 0, 0
}

// number returns the end of a volatile part that begins with the digit at i, or 0.
func (sc scanner) number(text []byte, i int) int {
	if sc.kinds&UUIDs != 0 {
		if end := uuidAt(text, i); end > 0 {
			return end
		}
	}
	k := skipDigits(text, i)
	if sc.kinds&Timestamps != 0 {
		if end := sc.timestamp(text, i, k); end > 0 {
			return end
		}
	}
	if sc.kinds&Runtime != 0 && i > 1 && (text[i-1] == ':' || text[i-1] == ' ' || text[i-1] == '-') {
		if end := max(processNumber(text, i, k), podSuffix(text, i)); end > 0 {
			return end
		}
	}
	if k == len(text) {
		return 0
	}
	if sc.kinds&Durations != 0 {
		if end := durationAt(text, i); end > 0 {
			return end
		}
	}
	if sc.kinds&Addresses != 0 && text[k]|0x20 == 'x' {
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

// units make a number a duration. Single letters must follow the digits at once, so that
// "5 m" stays a length; there may be a space before seconds if the number has a fraction or
// a name such as "time".
var units = [...]string{
	"milliseconds", "millisecond", "microseconds", "nanoseconds", "seconds", "second", "minutes", "minute",
	"hours", "hour", "msecs", "msec", "secs", "sec", "mins", "min", "hrs", "hr",
	"ms", "us", "ns", "\u00b5s", "\u03bcs", "s", "m", "h",
}

// durationAt returns the end of the duration at i, or 0: numbers with units, as in 1h2m3.5s.
func durationAt(text []byte, i int) int {
	end, begin := 0, i
	for {
		k := skipDigits(text, i)
		if k == i {
			return end
		}
		whole := k
		k = skipFraction(text, k)
		if spacedSeconds(text, k) && end == 0 && (k > whole || saysTime(text[:begin])) {
			return k + len(" s")
		}
		if end == 0 && !wordAt(text, k) && saysTime(text[:begin]) {
			if at := clocked(text, whole); at > 0 {
				return at
			}
			if k > whole {
				return k
			}
		}
		if per := rateAt(text, k); per > 0 && end == 0 {
			return per
		}
		if k == len(text) || class[text[k]] == other && text[k] != ' ' && text[k] < 0x80 {
			return end
		}
		if i = unitAt(text, k); i == 0 {
			return end
		}
		if !wordAt(text, i) {
			end = i
		}
	}
}

// clocked returns the end of the seconds in a time such as 00:01.234 whose minutes end at
// k, or 0.
func clocked(text []byte, k int) int {
	const seconds = len(":00")
	if k+seconds > len(text) || text[k] != ':' || skipDigits(text, k+1) != k+seconds || wordAt(text, k+seconds) {
		return 0
	}
	return skipFraction(text, k+seconds)
}

// rateAt returns the end of a unit per second at i, after a number, or 0: " runs/s", "MB/s".
func rateAt(text []byte, i int) int {
	k := skipSpace(text, i)
	unit := skipWord(text, k)
	if unit == k || class[text[k]] != letter || !hasPrefix(text[unit:], "/s") {
		return 0
	}
	for _, second := range [...]string{"/s", "/sec", "/second"} {
		if end := unit + len(second); hasPrefix(text[unit:], second) && !wordAt(text, end) {
			return end
		}
	}
	return 0
}

// spacedSeconds reports whether " s" is at i.
func spacedSeconds(text []byte, i int) bool {
	return hasPrefix(text[min(i, len(text)):], " s") && !wordAt(text, i+len(" s"))
}

// saysTime reports whether text ends in "time:" or "estimated", which test runners print
// before a number of seconds.
func saysTime(text []byte) bool {
	const longest = 24
	text = text[max(0, len(text)-longest):]
	for len(text) > 0 && (text[len(text)-1] == ' ' || text[len(text)-1] == ':') {
		text = text[:len(text)-1]
	}
	return len(text) >= 4 && equalFold(text[len(text)-4:], "time") || len(text) >= 9 && equalFold(text[len(text)-9:], "estimated")
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

// idNames are the words before "id" in names of request ids.
var idNames = [...]string{"request", "req", "trace", "span", "correlation", "invocation"}

// idPrefixes begin ids that vendors give to each request.
var idPrefixes = [...]string{"req_", "resp_", "msg_", "chatcmpl-"}

// prefixedID returns the span of the id at i if it begins with one of idPrefixes.
func prefixedID(text []byte, i int) (start, end int) {
	for _, p := range idPrefixes {
		if hasPrefix(text[i:], p) {
			if end := idToken(text, i); end-i >= len(p)+8 {
				return i, end
			}
		}
	}
	return 0, 0
}

// namedID returns the span of the id after a name that ends in "id" at w.
func namedID(text []byte, w int) (start, end int) {
	if !endsWithName(text[:w-2], idNames[:]) {
		return 0, 0
	}
	v := afterName(text, w)
	if end := idToken(text, v); v > w && end-v >= 4 && bytes.ContainsAny(text[v:end], "0123456789") {
		return v, end
	}
	return 0, 0
}

// afterName returns the index of the value after a name that ends at w; w if there is none.
func afterName(text []byte, w int) int {
	v := w
	for v < len(text) && v-w < 6 && nameEnds[text[v]] {
		v++
	}
	return v
}

// nameEnds are the characters that may be between a name and its value.
var nameEnds = [256]bool{'"': true, '\'': true, '\\': true, ':': true, '=': true, ' ': true}

// idToken returns the end of the id that begins at i.
func idToken(text []byte, i int) int {
	for i < len(text) && (class[text[i]] != other || text[i] == '-' || text[i] == '.' && wordAt(text, i+1)) {
		i++
	}
	return i
}
