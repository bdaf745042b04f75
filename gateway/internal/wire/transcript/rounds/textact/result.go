package textact

import (
	"bytes"
	"slices"

	"github.com/unloop/unloop/gateway/internal/text/recognize"
)

// envelopes are the names of elements that a harness adds to every result.
var envelopes = []string{"environment_details", "system-reminder", "system_reminder", "context_window_usage", "budget", "token_usage"}

// Result returns the text of a result without the label before it, without what a harness
// adds to every result, and without the numbers in lines that count steps. It may change
// text.
func Result(text []byte) []byte {
	for _, name := range envelopes {
		text = without(text, name)
	}
	text = bytes.TrimSpace(text)
	if n := resultLabel(text); n > 0 {
		text = bytes.TrimSpace(text[n:])
	}
	return bytes.TrimSpace(countdown(text))
}

// without removes the elements of a name from a text, in place. An element without a
// closing tag ends with the text.
func without(text []byte, name string) []byte {
	open, closing := []byte("<"+name+">"), []byte("</"+name+">")
	before, rest, found := bytes.Cut(text, open)
	kept := before
	for found {
		_, rest, found = bytes.Cut(rest, closing)
		if !found {
			break
		}
		before, rest, found = bytes.Cut(rest, open)
		kept = append(kept, before...)
	}
	return kept
}

// resultWords are the last words of labels before results: "Observation:", "Bourne Shell
// Output:", "[read_file for 'x'] Result:".
var resultWords = []string{"observation", "output", "outputs", "result", "results", "response", "stdout", "returned", "obs"}

// maxLabel is the maximum length, in bytes, of the label before a result.
const maxLabel = 120

// resultLabel returns the length of the label at the beginning of a text; 0 for none.
func resultLabel(text []byte) int {
	line, _, _ := bytes.Cut(text[:min(len(text), maxLabel)], []byte("\n"))
	for from := 0; ; {
		i := bytes.IndexByte(line[from:], ':')
		if i < 0 {
			return 0
		}
		i += from
		word := bytes.TrimRight(line[:i], " *0123456789#")
		start := len(word)
		for start > 0 && nameByte(word[start-1]) {
			start--
		}
		if slices.Contains(resultWords, string(bytes.ToLower(word[start:]))) {
			return skip(text, i+1, "*")
		}
		from = i + 1
	}
}

// LooksLikeResult reports whether a user message looks like the output of a program, and
// not like a human's words.
func LooksLikeResult(text []byte) bool {
	text = bytes.TrimSpace(text)
	if resultLabel(text) > 0 {
		return true
	}
	for _, prefix := range []string{"<output", "<returncode", "<result", "<tool_response", "<tool_result", "<function_results", "<observation", "[File:", "No output", "(no output)", "Traceback (most recent call last)", "exit code"} {
		if bytes.HasPrefix(text, []byte(prefix)) {
			return true
		}
	}
	last := text[bytes.LastIndexByte(text, '\n')+1:]
	return bytes.HasSuffix(last, []byte("$")) || bytes.HasSuffix(last, []byte("]#")) || bytes.HasPrefix(last, []byte("[Command finished with exit code"))
}

// The kinds of words in lines that count: of what a harness counts, beside the count (more and
// remaining say both), of what it measures, and beside that. Others, such as "of", stand between.
const (
	counted = 1 << iota
	left
	spent
	sofar
	between
	other
)

// edgeLines is the number of first and of last lines of a text that may count steps, and
// edgeBytes the maximum size of each of these groups.
const (
	edgeLines = 3
	edgeBytes = 1 << 10
)

// countdown replaces each number by 0 in lines at the beginning and the end of a text that
// count steps.
func countdown(text []byte) []byte {
	if len(text) <= 2*edgeBytes {
		masked, _ := countdownLines(text)
		return masked
	}
	head, first := countdownLines(text[:edgeBytes])
	tail, last := countdownLines(text[len(text)-edgeBytes:])
	if !first && !last {
		return text
	}
	return slices.Concat(head, text[edgeBytes:len(text)-edgeBytes], tail)
}

func countdownLines(text []byte) (out []byte, masked bool) {
	head, tail := edges(text)
	var places [2 * edgeLines][2]int // of lines that count
	n := 0
	for from := 0; from <= len(text); {
		if from > head && from < tail {
			from = tail
		}
		to := len(text)
		if i := bytes.IndexByte(text[from:], '\n'); i >= 0 {
			to = from + i
		}
		if counts(text[from:to]) {
			places[n], n = [2]int{from, to}, n+1
		}
		from = to + 1
	}
	if n == 0 {
		return text, false
	}
	done := 0
	for _, p := range places[:n] {
		out = append(append(out, text[done:p[0]]...), recognize.WithoutNumbers(bytes.Clone(text[p[0]:p[1]]))...)
		done = p[1]
	}
	return append(out, text[done:]...), true
}

// edges returns where the last of the first lines begins, and the first of the last lines.
func edges(text []byte) (head, tail int) {
	for range edgeLines - 1 {
		if i := bytes.IndexByte(text[head:], '\n'); i >= 0 {
			head += i + 1
		}
	}
	tail = len(text) + 1
	for range edgeLines {
		tail = 1 + bytes.LastIndexByte(text[:max(0, tail-1)], '\n')
	}
	return head, tail
}

// WithoutSteps returns the result of a tool without the numbers in lines with which a
// harness counts steps, if there are other lines. It does not change text.
func WithoutSteps(text []byte) []byte {
	if text = bytes.TrimSpace(text); bytes.IndexByte(text, '\n') < 0 {
		return text
	}
	return countdown(text)
}

// counts reports whether a line says how many steps are left or what they cost so far, or
// has nothing but the number of the step.
func counts(line []byte) bool {
	const longest = 200
	if len(line) > longest || !bytes.ContainsAny(line, "0123456789") {
		return false
	}
	all := 0
	for i := 0; i < len(line); {
		from := i
		for i < len(line) && isLetter(line[i]) {
			i++
		}
		if i > from {
			all |= kindOf(line[from:i])
		}
		i++
	}
	return all&counted != 0 && (all&left != 0 || all&^(counted|between) == 0) || all&spent != 0 && all&sofar != 0
}

func isLetter(c byte) bool { return 'a' <= c|0x20 && c|0x20 <= 'z' }

// kindOf returns the kinds of a word.
func kindOf(word []byte) int {
	var lower [len("iterations")]byte // the longest
	if len(word) > len(lower) {
		return other
	}
	for i, c := range word {
		lower[i] = c | 0x20
	}
	switch string(lower[:len(word)]) { // a fraction of the time of a map
	case "step", "steps", "turn", "turns", "attempt", "attempts", "chance", "chances", "iteration", "iterations", "try", "tries", "round", "rounds", "action", "actions":
		return counted
	case "left", "remaining":
		return left | sofar
	case "remain", "remains", "more":
		return left
	case "token", "tokens", "cost", "budget", "credits":
		return spent
	case "used", "spent", "far":
		return sofar
	case "of":
		return between
	}
	return other
}
