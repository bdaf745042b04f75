package recognize

import "bytes"

// processNames are the words before "id" or "ids" in names of the ids of processes,
// threads and shells, and of what coding agents' shells number.
var processNames = [...]string{"p", "pg", "pp", "t", "process", "thread", "chunk", "session", "background with", "shell", "bash"}

// processID returns the span of the numbers or the short token after a name that ends at w,
// such as pid, PGID or chunk_id. A plural name ends in "ids".
func processID(text []byte, w int, plural bool) (start, end int) {
	name := text[:w-2]
	if plural {
		name = text[:w-3]
	}
	if !endsWithName(name, processNames[:]) {
		return 0, 0
	}
	v := w
	for v < len(text) && v-w < 6 && (nameEnds[text[v]] || text[v] == '(' || text[v] == '[') {
		v++
	}
	end = idToken(text, v)
	if v == w || end == v || end-v > maxProcessID || !bytes.ContainsAny(text[v:end], "0123456789") && !allHex(text[v:end]) {
		return 0, 0
	}
	for end+2 < len(text) && text[end] == ',' && skipDigits(text, skipSpace(text, end+1)) > skipSpace(text, end+1) {
		end = skipDigits(text, skipSpace(text, end+1))
	}
	return v, end
}

// maxProcessID is the maximum length of the ids of processes and of agents' shells.
const maxProcessID = 16

// endsWithName reports whether text ends in one of names, which may be followed by one
// separator.
func endsWithName(text []byte, names []string) bool {
	if n := len(text); n > 0 && (text[n-1] == '-' || text[n-1] == '_' || text[n-1] == ' ') {
		text = text[:n-1]
	}
	for _, name := range names {
		if n := len(text) - len(name); n >= 0 && equalFold(text[n:], name) && (n == 0 || class[text[n-1]] != letter || text[n-1] == '_') {
			return true
		}
	}
	return false
}

// containerID returns the span of the hexadecimal id after the word "container" that ends
// at w.
func containerID(text []byte, w int) (start, end int) {
	const short, long = 12, 64
	v := afterName(text, w)
	end = skipWord(text, v)
	if v == w || end-v != short && end-v != long || !allHex(text[v:end]) {
		return 0, 0
	}
	return v, end
}

func allHex(text []byte) bool {
	for _, c := range text {
		if !isHex(c) {
			return false
		}
	}
	return len(text) >= 6
}

// elementID returns the span of the id after the word "ref" or "uid" that ends at w.
// Browser tools give such ids to the elements of a page in each snapshot: e12, s3e12, f1e12
// or 3_12.
func elementID(text []byte, w int) (start, end int) {
	v := afterName(text, w)
	end = skipWord(text, v)
	if v == w || end-v > maxProcessID || !isElement(text[v:end]) {
		return 0, 0
	}
	return v, end
}

// isElement reports whether a word is an element's id: an e with digits, or at least
// two runs of digits with a letter before each.
func isElement(word []byte) bool {
	parts := 0
	for i := 0; i < len(word); parts++ {
		if c := word[i]; c == 'e' || c == 's' || c == 'f' || c == '_' && i > 0 {
			i++
		} else if i > 0 {
			return false
		}
		k := skipDigits(word, i)
		if k == i {
			return false
		}
		i = k
	}
	return parts > 1 || parts == 1 && word[0] == 'e'
}

// timeNames end the names of measured times, before a unit.
var timeNames = [...]string{"duration", "elapsed", "wall_time", "walltime", "took", "latency", "execution_time", "response_time", "total_time", "run_time", "runtime"}

// timeUnits may follow them.
var timeUnits = [...]string{"", "_seconds", "_secs", "_sec", "_s", "_ms", "_millis", "_us", "_ns", "ms", "seconds"}

// measured returns the span of the number after the word text[i:w], if that is the name
// of a measured time.
func measured(text []byte, i, w int) (start, end int) {
	v := afterName(text, w)
	if v == w || v >= len(text) || class[text[v]] != digit || !namesTime(text[i:w]) {
		return 0, 0
	}
	end = skipFraction(text, skipDigits(text, v))
	if end+1 < len(text) && text[end]|0x20 == 'e' {
		exponent := end + 1
		if text[exponent] == '-' || text[exponent] == '+' {
			exponent++
		}
		if k := skipDigits(text, exponent); k > exponent {
			end = k
		}
	}
	if wordAt(text, end) || end < len(text) && text[end] == ':' {
		return 0, 0 // a duration with its units, or a time of day
	}
	return v, end
}

func namesTime(word []byte) bool {
	for _, unit := range timeUnits {
		n := len(word) - len(unit)
		if n < 4 || !equalFold(word[n:], unit) {
			continue
		}
		for _, name := range timeNames {
			if m := n - len(name); m >= 0 && equalFold(word[m:n], name) && (m == 0 || word[m-1] == '_') {
				return true
			}
		}
	}
	return false
}

// maxRandom is the maximum length of generated file names.
const maxRandom = 32

// randomName returns the span of a generated word: the name of a temporary file of Python
// or mktemp, the hash of a mangled symbol, or the name of a file with output that a coding
// agent saved.
func randomName(text []byte, i, w int) (start, end int) {
	n := w - i
	switch {
	case n == 11 && hasPrefix(text[i:], "tmp") && i > 0 && (text[i-1] == '/' || text[i-1] == '\\'):
		return i, w
	case n == 17 && text[i] == 'h' && i > 1 && text[i-1] == ':' && text[i-2] == ':' && allHex(text[i+1:w]):
		return i, w
	case n >= 6 && n <= maxProcessID && hasPrefix(text[w:], ".output") && bytes.ContainsAny(text[i:w], "0123456789"):
		return i, w
	case savedOutput(text, i, w):
		return i, w
	case n <= maxRandom && i > 0 && text[i-1] == '.' && mixed(text[i:w]) && underTmp(text[:i]):
		return i, w
	}
	return 0, 0
}

// savedOutput reports whether a word names a file in which a coding agent saved a long
// result.
func savedOutput(text []byte, i, w int) bool {
	if w-i >= 24 && hasPrefix(text[i:], "tool_") {
		return mixed(text[i+len("tool_") : w])
	}
	return w-i <= maxRandom && bytes.HasSuffix(text[:i], []byte("/tool-results/")) && mixed(text[i:w])
}

// underTmp reports whether text ends in a path below a temporary folder.
func underTmp(text []byte) bool {
	const longest = 64
	text = text[max(0, len(text)-longest):]
	if k := bytes.LastIndexAny(text, " \t\n\"'`=("); k >= 0 {
		text = text[k+1:]
	}
	return bytes.Contains(text, []byte("/tmp/")) || bytes.Contains(text, []byte("/var/folders/"))
}

// mixed reports whether a word has letters and digits, or letters of both cases.
func mixed(word []byte) bool {
	digits, upper, lower := false, false, false
	for _, c := range word {
		digits = digits || class[c] == digit
		upper = upper || 'A' <= c && c <= 'Z'
		lower = lower || 'a' <= c && c <= 'z'
	}
	return (digits || upper) && (digits || lower) && (upper || lower)
}

// podSuffix returns the end of the two random parts of a Kubernetes pod's name at i, such
// as 5d4f8c7b9-x2x4z, or 0.
func podSuffix(text []byte, i int) int {
	if i < 2 || text[i-1] != '-' || class[text[i-2]] == other {
		return 0
	}
	w := i
	for w < len(text) && (class[text[w]] == digit || 'a' <= text[w] && text[w] <= 'z') {
		w++
	}
	const last = 5
	if n := w - i; n < 8 || n > 10 || w+last >= len(text) || text[w] != '-' || !bytes.ContainsAny(text[i:w], "0123456789") {
		return 0
	}
	for k := w + 1; k <= w+last; k++ {
		if class[text[k]] != digit && (text[k] < 'a' || text[k] > 'z') {
			return 0
		}
	}
	if wordAt(text, w+1+last) {
		return 0
	}
	return w + 1 + last
}

// processNumber returns k if text[i:k] is an ephemeral port, or the process id of a shell's
// background job; otherwise 0.
func processNumber(text []byte, i, k int) int {
	switch {
	case k-i == 5 && i > 1 && text[i-1] == ':' && class[text[i-2]] != other && !wordAt(text, k) && ephemeral(text[i:k]) && hostBefore(text[:i-1]):
		return k
	case i > 3 && text[i-1] == ' ' && text[i-2] == ']' && class[text[i-3]] == digit && (k == len(text) || text[k] == '\n') && jobBefore(text[:i-2]):
		return k
	}
	return 0
}

func ephemeral(port []byte) bool { return string(port) >= "32768" && string(port) <= "65535" }

// hostBefore reports whether text ends in the name or address of this host.
func hostBefore(text []byte) bool {
	return bytes.HasSuffix(text, []byte("localhost")) || bytes.HasSuffix(text, []byte("127.0.0.1")) || bytes.HasSuffix(text, []byte("0.0.0.0"))
}

// jobBefore reports whether text ends in "[1" at the beginning of a line.
func jobBefore(text []byte) bool {
	n := len(text)
	for n > 0 && class[text[n-1]] == digit {
		n--
	}
	return n > 0 && text[n-1] == '[' && (n == 1 || text[n-2] == '\n')
}
