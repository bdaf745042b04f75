package recognize

import (
	"bytes"
	"regexp"
	"slices"

	"github.com/unloop/unloop/schemas/toolname"
)

// Traits are properties of a call that do not depend on its result.
type Traits struct {
	// Poll says that the call is made again and again while something else goes on, such
	// as a look at whether a build is done.
	Poll bool
	// Look says that the call looks at something that others may change. An agent that
	// repeats it slowly waits for a change.
	Look bool
	// Wait says that the call only lets time pass.
	Wait bool
	// Once says that the call edits something or delegates a task. With the same arguments
	// it is a repeat even if its result differs: the file has grown, or the other agent
	// answers in other words.
	Once bool
}

// TraitsOf returns the traits of a tool call with its arguments in JSON.
func TraitsOf(tool string, text []byte) Traits {
	a, ok := readArguments(text)
	t := Traits{
		Poll: a.polls(tool, ok), Wait: waitName(tool),
		Once: Delegates(tool) || delivers(tool) || toolname.HasWord(tool, editWords) && hasName(text, contentNames),
	}
	switch {
	case ok && isShell(tool) && len(a.command) > 0:
		t.setCommand(a.command)
	case ok:
		t.Look, t.Wait = looks(tool, text), t.Wait || sleepsInCode(text)
	}
	return t
}

// TextTraitsOf is TraitsOf for a call that an agent wrote as text; shell says that it is a
// command for a shell.
func TextTraitsOf(tool string, command []byte, shell bool) Traits {
	t := Traits{Poll: pollName(tool), Wait: waitName(tool), Once: Delegates(tool)}
	if shell {
		t.Poll = t.Poll || pollCommand(command)
		t.setCommand(command)
	}
	return t
}

// setCommand adds the traits of a shell's command.
func (t *Traits) setCommand(command []byte) {
	t.Wait, t.Once = t.Wait || sleeps(command), t.Once || edits(command)
	t.Look = looksByCommand(command)
}

// Steps reports whether a tool's name says that each of its calls makes a step forward: it
// presses a key, scrolls a page, or moves a robot.
func Steps(tool string) bool {
	return toolname.HasWord(tool, []string{"press", "keypress", "scroll", "swipe"}) ||
		toolname.HasWord(tool, []string{"move", "step", "turn", "go", "walk", "rotate"}) && toolname.HasWord(tool, []string{"forward", "backward", "left", "right", "up", "down"})
}

// measureWords are in calls whose result is a measured time.
var measureWords = []string{"bench", "benchmark", "benchmarks", "hyperfine", "timeit", "perf", "latency", "throughput", "speedtest"}

// Measures reports whether a call measures times, so that its result is about them.
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

// Delegates reports whether a tool gives a task to another agent, by its name.
func Delegates(tool string) bool {
	for _, name := range [...]string{"task", "agent", "new_task"} {
		if equalFold([]byte(tool), name) {
			return true
		}
	}
	return toolname.HasWord(tool, delegateWords)
}

// edits reports whether a command adds something to a file, or is a command such as "edit
// 10:12" of an agent's own editor, with the content on the lines after it.
func edits(command []byte) bool {
	line, content, _ := bytes.Cut(bytes.TrimSpace(command), []byte("\n"))
	word, _, _ := bytes.Cut(line, []byte(" "))
	return len(content) > 0 && slices.Contains([]string{"edit", "insert", "append", "str_replace"}, string(word)) || additions.Match(line) && !containsAny(line, []string{".log", "/dev/"})
}

// additions matches the beginning of a command that appends to a file or inserts a line.
var additions = regexp.MustCompile(`^(?:(?:cat|echo|printf)\b[^|;&]*>>|tee -a |sed -i\S*\s+(?:-e\s+)?['"](?:\d+|\$|/[^/]*/)\s*[ai][\\ ])`)

// delivers reports whether a tool sends something to somebody, or pays, by its name.
func delivers(tool string) bool {
	return toolname.HasWord(tool, []string{"send", "post", "create", "add", "submit", "publish", "make", "issue"}) &&
		toolname.HasWord(tool, []string{"email", "mail", "sms", "tweet", "comment", "reply", "ticket", "issue", "payment", "refund", "transfer", "invoice"})
}

// sleeps reports whether a command only sleeps: sleep 60, sleep 60 && echo done.
func sleeps(command []byte) bool {
	command = bytes.TrimSpace(command)
	if !hasPrefix(command, "sleep ") || len(command) > maxCommand {
		return false
	}
	for i, part := range splitCommand(command) {
		part = bytes.TrimSpace(part)
		if i > 0 && len(part) > 0 && string(part) != "echo" && !hasPrefix(part, "echo ") {
			return false
		}
	}
	return true
}

// sleepsInCode reports whether arguments are a Python or JavaScript program that only sleeps.
func sleepsInCode(arguments []byte) bool {
	const longest, calls = 200, 3
	if len(arguments) > longest || !hasName(arguments, []string{"code", "source"}) {
		return false
	}
	n := bytes.Count(arguments, []byte("("))
	return n == 1 && bytes.Contains(arguments, []byte("sleep(")) || n <= calls && bytes.Contains(arguments, []byte("new Promise(")) && bytes.Contains(arguments, []byte("setTimeout("))
}

// askWords are in the names of tools that ask a human.
var askWords = []string{"ask", "question", "questions", "clarify", "clarification", "confirm", "confirmation", "human", "elicit"}

// noAnswers are in results that say that nobody answers.
var noAnswers = []string{
	"not available", "unavailable", "no user", "no human", "no answer", "no response", "did not respond", "did not answer", "not respond", "non-interactive",
	"not supported", "cannot ask", "can't ask", "nobody", "timed out",
}

// Asks reports whether a tool asks a human, by its name.
func Asks(tool string) bool {
	return toolname.HasWord(tool, askWords) || toolname.HasWord(tool, []string{"input"}) && toolname.HasWord(tool, []string{"user"})
}

// IsUnanswered reports whether the result of a tool that asks a human says that nobody
// answers. That is a failure, whatever the question.
func IsUnanswered(text []byte) bool {
	return len(text) <= maxEmpty && containsAny(appendLower(nil, text), noAnswers)
}

// plainLines is the maximum number of lines that the class of an error covers.
const plainLines = 2

// IsPlainError reports whether results with the class of a failed result say the same. That
// is so for tools other than shells, which report their own errors, and for texts with
// [IsPlainText].
func IsPlainError(tool string, text []byte) bool { return !isShell(tool) || IsPlainText(text) }

// IsPlainText reports whether an error has no lines that its class does not cover. The
// output of a compiler or test may show progress although its first and last lines are the
// same. An exit code alone says nothing.
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
