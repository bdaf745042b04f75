package recognize

import (
	"bytes"
	"regexp"
	"slices"

	"github.com/unloop/unloop/schemas/toolname"
)

// Traits are properties of a call, independent of its result.
type Traits struct {
	// Poll is IsPoll.
	Poll bool
	// Look says that the call looks at something which others may change. If it is made
	// again slowly, it waits for that.
	Look bool
	// Wait says that the call does nothing but let time pass.
	Wait bool
	// Once says that the call edits something or gives a task to another agent. Made again
	// with the same arguments, it repeats itself although its result differs: the file has
	// grown, or the other agent answers in other words.
	Once bool
}

// TraitsOf returns the traits of a tool call with its arguments in JSON.
func TraitsOf(tool string, arguments []byte) Traits {
	t := Traits{Poll: IsPoll(tool, arguments), Wait: waitName(tool), Once: Delegates(tool) || delivers(tool) || toolname.HasWord(tool, editWords) && hasName(arguments, contentNames)}
	a, ok := readPollArguments(arguments)
	switch {
	case ok && isShell(tool) && len(a.command) > 0:
		t.setCommand(a.command)
	case ok:
		t.Look, t.Wait = looks(tool, arguments), t.Wait || sleepsInCode(arguments)
	}
	return t
}

// TextTraitsOf is TraitsOf for a call that an agent wrote as text; shell says that it is a
// command for a shell.
func TextTraitsOf(tool string, command []byte, shell bool) Traits {
	t := Traits{Poll: IsTextPoll(tool, command, shell), Wait: waitName(tool), Once: Delegates(tool)}
	if shell {
		t.setCommand(command)
	}
	return t
}

// setCommand adds what the command of a shell says.
func (t *Traits) setCommand(command []byte) {
	t.Wait, t.Once = t.Wait || sleeps(command), t.Once || edits(command)
	t.Look = looksByCommand(command)
}

// Steps reports whether a tool's name says that each of its calls goes a step further: a key
// that is pressed, a page that is scrolled, a robot that moves.
func Steps(tool string) bool {
	return toolname.HasWord(tool, []string{"press", "keypress", "scroll", "swipe"}) ||
		toolname.HasWord(tool, []string{"move", "step", "turn", "go", "walk", "rotate"}) && toolname.HasWord(tool, []string{"forward", "backward", "left", "right", "up", "down"})
}

// measureWords are words of calls whose result is a measured time.
var measureWords = []string{"bench", "benchmark", "benchmarks", "hyperfine", "timeit", "perf", "latency", "throughput", "speedtest"}

// Measures reports whether a call measures times, which are then what its result tells.
func Measures(tool string, arguments []byte) bool {
	if toolname.HasWord(tool, measureWords) {
		return true
	}
	arguments = arguments[:min(len(arguments), maxCommand)]
	return bytes.Contains(arguments, []byte(`"time `)) || hasPrefix(arguments, "time ") ||
		slices.ContainsFunc(measureWords, func(w string) bool { return hasWord(arguments, w) })
}

var (
	waitWords     = []string{"wait", "sleep", "pause", "delay"}
	editWords     = []string{"edit", "editor", "insert", "append", "replace", "patch"}
	contentNames  = []string{"text", "content", "new_str", "new_string", "new_text", "insert_text", "replacement", "code", "patch", "diff"}
	delegateWords = []string{"delegate", "subagent", "dispatch", "spawn"}
)

func waitName(tool string) bool {
	return toolname.HasWord(tool, waitWords) && !toolname.HasWord(tool, changingWords)
}

// Delegates reports whether a tool's name says that it gives a task to another agent.
func Delegates(tool string) bool {
	for _, name := range [...]string{"task", "agent", "new_task"} {
		if equalFold([]byte(tool), name) {
			return true
		}
	}
	return toolname.HasWord(tool, delegateWords)
}

// edits reports whether a command adds something to a file, or is one of the editors that
// agents have beside their shell, with what it writes on lines of its own: edit 10:12.
func edits(command []byte) bool {
	line, content, _ := bytes.Cut(bytes.TrimSpace(command), []byte("\n"))
	word, _, _ := bytes.Cut(line, []byte(" "))
	return len(content) > 0 && slices.Contains([]string{"edit", "insert", "append", "str_replace"}, string(word)) || additions.Match(line) && !containsAny(line, []string{".log", "/dev/"})
}

// additions matches the beginning of a command that appends to a file or inserts a line.
var additions = regexp.MustCompile(`^(?:(?:cat|echo|printf)\b[^|;&]*>>|tee -a |sed -i\S*\s+(?:-e\s+)?['"](?:\d+|\$|/[^/]*/)\s*[ai][\\ ])`)

// delivers reports whether a tool's name says that it sends something to somebody, or pays.
func delivers(tool string) bool {
	return toolname.HasWord(tool, []string{"send", "post", "create", "add", "submit", "publish", "make", "issue"}) &&
		toolname.HasWord(tool, []string{"email", "mail", "sms", "tweet", "comment", "reply", "ticket", "issue", "payment", "refund", "transfer", "invoice"})
}

// sleeps reports whether a command does nothing but sleep: sleep 60, sleep 60 && echo done.
func sleeps(command []byte) bool {
	command = bytes.TrimSpace(command)
	if !hasPrefix(command, "sleep ") || len(command) > maxCommand {
		return false
	}
	separators := func(r rune) bool { return r == ';' || r == '&' || r == '\n' }
	for i, part := range bytes.FieldsFunc(command, separators) {
		part = bytes.TrimSpace(part)
		if i > 0 && len(part) > 0 && string(part) != "echo" && !hasPrefix(part, "echo ") {
			return false
		}
	}
	return true
}

// sleepsInCode reports whether arguments are a program that does nothing but sleep, in
// Python or JavaScript.
func sleepsInCode(arguments []byte) bool {
	const longest, calls = 200, 3
	if len(arguments) > longest || !hasName(arguments, []string{"code", "source"}) {
		return false
	}
	n := bytes.Count(arguments, []byte("("))
	return n == 1 && bytes.Contains(arguments, []byte("sleep(")) || n <= calls && bytes.Contains(arguments, []byte("new Promise(")) && bytes.Contains(arguments, []byte("setTimeout("))
}

// askWords are words of tools that ask a human.
var askWords = []string{"ask", "question", "questions", "clarify", "clarification", "confirm", "confirmation", "human", "elicit"}

// noAnswers are words of results that say that nobody answers.
var noAnswers = []string{
	"not available", "unavailable", "no user", "no human", "no answer", "no response", "did not respond", "did not answer", "not respond", "non-interactive",
	"not supported", "cannot ask", "can't ask", "nobody", "timed out",
}

// Asks reports whether a tool's name says that it asks a human.
func Asks(tool string) bool {
	return toolname.HasWord(tool, askWords) || toolname.HasWord(tool, []string{"input"}) && toolname.HasWord(tool, []string{"user"})
}

// IsUnanswered reports whether the result of a tool that asks a human says that nobody
// answers, which is a failure whatever was asked.
func IsUnanswered(text []byte) bool {
	return len(text) <= longestEmpty && containsAny(appendLower(nil, text), noAnswers)
}

// plainLines is the most lines of an error that its class covers.
const plainLines = 2

// IsPlainError reports whether the class of a failed result says all of the error, so that
// results of one class tell the same. This is the case for tools other than shells,
// which report their own errors, and for texts with [IsPlainText].
func IsPlainError(tool string, text []byte) bool { return !isShell(tool) || IsPlainText(text) }

// IsPlainText reports whether an error has no more than the lines that its class covers.
// What a compiler or a test prints may get further each time although its first and last
// lines stay. An exit code by itself says nothing.
func IsPlainText(text []byte) bool {
	lines, told := 0, false
	for line := range bytes.SplitSeq(text, []byte("\n")) {
		if line = bytes.TrimSpace(line); len(line) == 0 {
			continue
		}
		if len(line) > maxErrorLine || lines == plainLines {
			return false
		}
		lines++
		told = told || !exitCode(line)
	}
	return told
}
