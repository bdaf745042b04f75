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

// counted are words for what a harness counts, and left those beside the count. spent are
// words for what it measures, and sofar those beside that.
var (
	counted = []string{"step", "steps", "turn", "turns", "attempt", "attempts", "chance", "chances", "iteration", "iterations", "try", "tries", "round", "rounds", "action", "actions"}
	left    = []string{"left", "remaining", "remain", "remains", "more"}
	spent   = []string{"token", "tokens", "cost", "budget", "credits"}
	sofar   = []string{"used", "spent", "far", "left", "remaining"}
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
	lines := bytes.Split(text, []byte("\n"))
	for i, line := range lines {
		if (i < edgeLines || i >= len(lines)-edgeLines) && counts(line) {
			lines[i], masked = recognize.WithoutNumbers(bytes.Clone(line)), true
		}
	}
	if !masked {
		return text, false
	}
	return bytes.Join(lines, []byte("\n")), true
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
	words := bytes.FieldsFunc(bytes.ToLower(line), func(r rune) bool { return r < 'a' || r > 'z' })
	has := func(list []string) bool {
		return slices.ContainsFunc(words, func(w []byte) bool { return slices.Contains(list, string(w)) })
	}
	step := func(w []byte) bool { return slices.Contains(counted, string(w)) || string(w) == "of" }
	alone := !slices.ContainsFunc(words, func(w []byte) bool { return !step(w) })
	return has(counted) && (has(left) || alone) || has(spent) && has(sofar)
}
