package recognize

import (
	"bytes"
	"regexp"
	"slices"
	"strings"

	"github.com/unloop/unloop/schemas/fingerprint"
)

// domainError is the domain of error classes. Its number rises when their meaning changes,
// so that old and new classes, which are stored with sessions, differ.
const domainError = "unloop/error/1"

// Failures recognizes failed results by patterns, for wire formats that do not mark them.
// It is safe for concurrent use.
type Failures struct{ patterns []*regexp.Regexp }

// The lengths, in bytes, of a result's beginning and end that are searched: a tool reports
// a failure in its first or last words, and a file that was read may be full of the word
// "error".
const (
	failureHead = 2048
	failureTail = 512
)

// NewFailures compiles patterns (RE2).
func NewFailures(patterns ...string) (*Failures, error) {
	compiled, err := compile(patterns)
	return &Failures{compiled}, err
}

// Match reports whether a pattern matches the beginning or end of a result.
func (f *Failures) Match(text []byte) bool {
	text = edgesOf(text)
	return slices.ContainsFunc(f.patterns, func(re *regexp.Regexp) bool { return re.Match(text) })
}

// edgesOf returns the beginning and the end of a long text, with a line end between them.
func edgesOf(text []byte) []byte {
	text = bytes.TrimSpace(text)
	if len(text) <= failureHead+failureTail {
		return text
	}
	window := make([]byte, 0, failureHead+failureTail+1)
	window = append(append(window, text[:failureHead]...), '\n')
	return append(window, text[len(text)-failureTail:]...)
}

// LooksFailed recognizes failed results without patterns: those that begin with a word such
// as "Error:" or with a traceback, JSON objects that begin with an error member, messages of
// shells such as "command not found" or with a line number, HTTP errors, and exit codes other
// than 0.
func LooksFailed(text []byte) bool { return looksFailed(edgesOf(text)) }

// failureWords begin a failed result if a colon, a bracket, an exclamation mark or the end
// of the line follows.
var failureWords = [...]string{"error", "fatal", "exception", "failed", "failure", "panic"}

// failureStarts begin a failed result, whatever follows.
var failureStarts = [...]string{
	"traceback (most recent call last)", "<tool_use_error>", "<error>", "[error]", "error ", "failed to ", "fatal error",
	"unhandled exception", "uncaught exception", "execution failed", "command failed", "tool call failed",
	"your proposed edit has introduced", "could not find ", "couldn't find ", "cannot find ", "can't find ", "unable to ", "cannot ",
	"invalid argument", "invalid command", "invalid action", "invalid input", "invalid parameter", "invalid path", "invalid tool", "invalid json",
	"unknown command", "unknown tool", "unknown action", "unknown option", "unrecognized ", "access denied", "permission denied", "unauthorized",
	"forbidden", "bad request", "request failed", "syntax error", "no such file or directory", "no such tool", "no such command",
	"invalid credentials", "invalid password", "incorrect password", "wrong password", "curl: (", "wget: ", "ssh: ",
	`{"error":{`, `{"error":"`, `{"err":"`, `{"iserror":true`, `{"is_error":true`, `{"success":false`, `{"ok":false`,
}

// unknownCommand is in the message of Windows shells about an unknown command.
const unknownCommand = "is not recognized as "

// failureEnds end the last line of a failed result.
var failureEnds = [...]string{"command not found", "no such file or directory", "permission denied", "operation not permitted"}

// exitNames precede the exit code of a command.
var exitNames = [...]string{
	"exit code", "exit status", "exited with code", "exited with status", "exit_code", "exitcode", "returned non-zero exit status", "<returncode>",
	"return code", "returncode",
}

// exitWords prefilter exitNames: each of those contains one of them.
var exitWords = [...]string{"exit", "return"}

// statusNames precede an HTTP status.
var statusNames = [...]string{`"status":`, `"status_code":`, `"statuscode":`, `"code":`, "status code", "http status", "http error", "http/1.1", "http/2", "http", "<title>"}

// statusWords prefilter statusNames: each of those contains one of them.
var statusWords = [...]string{"status", "http", `"code":`, "<title>"}

// lowerBuf is a buffer on the stack for the beginning of a text or line in lower case.
type lowerBuf [exitWindow]byte

func looksFailed(text []byte) bool {
	var buf [80]byte
	start := squash(buf[:0], text[:min(len(text), 80)])
	if hasAnyPrefix(start, failureStarts[:]) {
		return true
	}
	for _, w := range failureWords {
		if hasPrefix(start, w) && (len(start) == len(w) || strings.IndexByte(":([!\n", start[len(w)]) >= 0) {
			return true
		}
	}
	first, last := edgeLines(text)
	if pythonError(start) || errnoAt(text) || bytes.Contains(appendLower(nil, first[:min(len(first), maxErrorLine)]), []byte(unknownCommand)) {
		return true
	}
	if failedStep(squash(buf[:0], first[:min(len(first), 80)])) || traceback(text, last) || shellError(first) || shellError(last) || exits(text, first, last) || httpError(text) {
		return true
	}
	return slices.ContainsFunc(failureEnds[:], func(p string) bool { return len(last) >= len(p) && equalFold(last[len(last)-len(p):], p) })
}

// failedStep reports whether a line says that something failed: "Edit failed:", "The
// build failed with 2 errors".
func failedStep(line []byte) bool {
	before, rest, found := bytes.Cut(line, []byte(" failed"))
	if !found {
		return hasPrefix(line, "failed ") && len(line) > 7 && class[line[7]] == digit
	}
	return bytes.IndexByte(before, '.') < 0 && bytes.Count(before, []byte(" ")) < 4 && (len(rest) == 0 || rest[0] == ':' || rest[0] == '!' || hasPrefix(rest, " with ") || hasPrefix(rest, " because "))
}

// traceback reports whether text ends in a Python traceback.
func traceback(text, last []byte) bool {
	return bytes.Contains(text, []byte("Traceback (most recent call last)")) && pythonError(squash(nil, last[:min(len(last), 80)]))
}

// exitLines is the number of lines at each end that may name an exit code, and exitWindow
// the number of their bytes that are searched.
const (
	exitLines  = 6
	exitWindow = 300
)

// exits reports whether a line at either end of text names an exit code other than 0.
// Lines other than the first and the last must begin with the name.
func exits(text, first, last []byte) bool {
	if exitCode(first) || exitCode(last) || exitCode(last[max(0, len(last)-exitWindow):]) {
		return true
	}
	return exitLine(text[:min(len(text), exitWindow)]) || exitLine(text[max(0, len(text)-exitWindow):])
}

// exitLine reports whether a line of the window begins with the name of an exit code
// and has one other than 0.
func exitLine(window []byte) bool {
	var buf lowerBuf
	for range 2 * exitLines {
		var line []byte
		line, window, _ = bytes.Cut(window, []byte("\n"))
		line = bytes.TrimLeft(line, " \t*[(<")
		if len(line) > 0 && strings.IndexByte("cCeEpPrR", line[0]) >= 0 && namesExit(squash(buf[:0], line[:min(len(line), 40)])) && exitCode(line) {
			return true
		}
	}
	return false
}

// namesExit reports whether a line begins with the name of an exit code, perhaps after the
// word process or command.
func namesExit(line []byte) bool {
	if hasPrefix(line, "process ") || hasPrefix(line, "command ") {
		line = line[len("process "):]
	}
	return hasAnyPrefix(line, exitNames[:])
}

// httpError reports whether text begins like the body or the status line of an HTTP
// response with a status from 400 to 599.
func httpError(text []byte) bool {
	var buf lowerBuf
	head := squash(buf[:0], text[:min(len(text), exitWindow)])
	if len(head) > 3 && statusAt(head, 0) && (head[3] == ':' || head[3] == ' ' && bytes.ContainsAny(head[4:min(len(head), 40)], "abcdefghijklmnopqrstuvwxyz")) && namesStatus(head[4:]) {
		return true
	}
	if !containsAny(head, statusWords[:]) {
		return false
	}
	for _, name := range statusNames {
		i := bytes.Index(head, []byte(name))
		if i < 0 || i > 0 && name == "http" && class[head[i-1]] != other {
			continue
		}
		if statusAt(bytes.TrimLeft(head[i+len(name):], ` :="`), 0) {
			return true
		}
	}
	return false
}

// namesStatus reports whether text begins with the name of a failed status.
func namesStatus(text []byte) bool {
	return hasAnyPrefix(bytes.TrimLeft(text, " "), []string{"bad request", "unauthorized", "forbidden", "not found", "client error", "server error", "internal server error", "bad gateway", "service unavailable", "too many requests", "gateway timeout", "unprocessable", "conflict", "method not allowed"})
}

func statusAt(text []byte, i int) bool {
	return i+3 <= len(text) && (text[i] == '4' || text[i] == '5') && class[text[i+1]] == digit && class[text[i+2]] == digit && !wordAt(text, i+3)
}

// squash appends text in lower case to an empty buffer. From a JSON object it drops the
// white space after punctuation, so that {"error": "x"} begins like {"error":"x"}.
func squash(out, text []byte) []byte {
	out = appendASCII(out, text)
	if len(out) == 0 || out[0] != '{' {
		return out
	}
	n := 0
	for _, ch := range out {
		if (ch == ' ' || ch == '\n' || ch == '\t' || ch == '\r') && n > 0 && strings.IndexByte(`{":,`, out[n-1]) >= 0 {
			continue
		}
		out[n] = ch
		n++
	}
	return out[:n]
}

// pythonError reports whether start begins with the name of an exception and a
// colon: "valueerror: …", "openai.ratelimiterror: …".
func pythonError(start []byte) bool {
	i := 0
	for i < len(start) && (class[start[i]] != other || start[i] == '.') {
		i++
	}
	if i >= len(start) || start[i] != ':' {
		return false
	}
	return bytes.HasSuffix(start[:i], []byte("error")) || bytes.HasSuffix(start[:i], []byte("exception"))
}

// errnoAt reports whether text begins with an errno name and a colon: "EACCES: permission
// denied".
func errnoAt(text []byte) bool {
	n := 0
	for n < len(text) && 'A' <= text[n] && text[n] <= 'Z' {
		n++
	}
	return n > 3 && text[0] == 'E' && hasPrefix(text[n:], ": ")
}

// exitCode reports whether line names an exit code other than 0.
func exitCode(line []byte) bool {
	var buf lowerBuf
	lower := squash(buf[:0], line[:min(len(line), 200)])
	if !containsAny(lower, exitWords[:]) {
		return false
	}
	for _, name := range exitNames {
		i := bytes.Index(lower, []byte(name))
		if i < 0 {
			continue
		}
		if code := bytes.TrimLeft(lower[i+len(name):], ` :="'\`); len(code) > 0 && '1' <= code[0] && code[0] <= '9' {
			return true
		}
	}
	return false
}

// edgeLines returns the first and the last line of trimmed text.
func edgeLines(text []byte) (first, last []byte) {
	first, _, _ = bytes.Cut(text, []byte("\n"))
	last = text[bytes.LastIndexByte(text, '\n')+1:]
	return bytes.TrimSpace(first), bytes.TrimSpace(last)
}

// ErrorClass returns the digest of the kind of error that a failed result reports: of its
// first and last line in lower case, without volatile parts and without numbers, quoted
// text and paths, which depend on the arguments of the call.
func ErrorClass(text []byte) fingerprint.Digest {
	first, last := edgeLines(bytes.TrimSpace(text))
	b := fingerprint.AppendField(nil, []byte(domainError))
	b = fingerprint.AppendField(b, errorLine(first))
	b = fingerprint.AppendField(b, errorLine(last))
	return fingerprint.Sum(b)
}

// maxErrorLine is the number of bytes of a line that count for the kind of an error.
const maxErrorLine = 300

func errorLine(line []byte) []byte {
	line = line[:min(len(line), maxErrorLine)]
	var clean []byte
	scanner{kinds: AllKinds}.scan(line, func(part []byte) { clean = append(clean, part...) })
	out := make([]byte, 0, len(clean))
	for i := 0; i < len(clean); {
		if end := argumentAt(clean, i); end > i {
			out = append(out, placeholder...)
			i = end
			continue
		}
		end := i + 1
		for class[clean[i]] != other && end < len(clean) && class[clean[end]] != other {
			end++
		}
		out = appendLower(out, clean[i:end])
		i = end
	}
	return out
}

// argumentAt returns the end of the text at i if that probably comes from the call: quoted
// text, or a word with a digit or a slash. Otherwise it returns 0.
func argumentAt(line []byte, i int) int {
	switch ch := line[i]; ch {
	case '"', '\'', '`':
		if n := bytes.IndexByte(line[i+1:], ch); n >= 0 && (ch != '\'' || i == 0 || class[line[i-1]] == other) {
			return i + n + 2
		}
		return 0
	}
	end := i
	for end < len(line) && (class[line[end]] != other || strings.IndexByte(`/.-~\@`, line[end]) >= 0) {
		end++
	}
	if bytes.ContainsAny(line[i:end], "/\\0123456789") {
		return end
	}
	return 0
}
