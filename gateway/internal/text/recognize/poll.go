package recognize

import (
	"bytes"
	"errors"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/unloop/unloop/schemas/toolname"
)

// maxCommand is how much of a shell command is looked at. What makes it a poll
// stands at its beginning; scripts and here-documents follow.
const maxCommand = 1024

// IsPoll reports whether a tool call is of the kind that is made again and again
// while something else goes on: looking whether a container is up, a build done,
// a log longer. Such calls get a multiple of the usual thresholds.
//
// A member "poll" of the arguments that is true or false decides. Otherwise a call
// is a poll when its tool's name says so (wait_for_build, get_job_status), or when
// its tool is a shell and its command, or the name of another argument, does. The
// commands and words follow LibreFang's loop guard. Values of other arguments say
// nothing, and arguments that are not a JSON object make no poll of a shell.
func IsPoll(tool string, arguments []byte) bool {
	shell := isShell(tool)
	if tool == stdinTool {
		return waits(arguments)
	}
	if shell || bytes.Contains(arguments, []byte(`"poll"`)) {
		a, ok := readPollArguments(arguments)
		switch {
		case ok && a.explicit:
			return a.poll
		case ok && shell && (a.hint || pollCommand(a.command)):
			return true
		}
	}
	return pollName(tool)
}

// stdinTool writes to a running command; with nothing to write, it waits for more
// output.
const stdinTool = "write_stdin"

// waits reports whether the arguments of stdinTool write nothing.
func waits(arguments []byte) bool {
	dec := jsontext.NewDecoder(bytes.NewBuffer(arguments))
	if tok, err := dec.ReadToken(); err != nil || tok.Kind() != '{' {
		return false
	}
	for dec.PeekKind() == '"' {
		name, err := dec.ReadToken()
		if err != nil {
			return false
		}
		if name.String() == "chars" || name.String() == "input" {
			tok, err := dec.ReadToken()
			return err == nil && (tok.Kind() == 'n' || tok.Kind() == '"' && tok.String() == "")
		}
		if dec.SkipValue() != nil {
			return false
		}
	}
	return dec.PeekKind() == '}'
}

// pollArguments is what a call's arguments say about polling.
type pollArguments struct {
	explicit, poll bool
	hint           bool // the name of an argument speaks of polling
	command        []byte
}

func readPollArguments(arguments []byte) (a pollArguments, ok bool) {
	dec := jsontext.NewDecoder(bytes.NewBuffer(arguments))
	if tok, err := dec.ReadToken(); err != nil || tok.Kind() != '{' {
		return a, false
	}
	for {
		name, err := dec.ReadToken()
		if err != nil || name.Kind() == '}' {
			return a, err == nil
		}
		if a.member(dec, name.String()) != nil {
			return a, false
		}
	}
}

// member reads the value of one argument.
func (a *pollArguments) member(dec *jsontext.Decoder, name string) error {
	kind := dec.PeekKind()
	switch name {
	case "poll":
		if kind == 't' || kind == 'f' {
			a.explicit, a.poll = true, kind == 't'
		}
		return dec.SkipValue()
	case "command", "cmd", "script", "commandLine", "command_line":
		return a.readCommand(dec, kind)
	}
	if words := []byte(name); hasWord(words, "status") || hasWord(words, "poll") || hasWord(words, "wait") {
		a.hint = true
	}
	return dec.SkipValue()
}

// readCommand reads a command line, or the list of a command and its arguments.
func (a *pollArguments) readCommand(dec *jsontext.Decoder, kind jsontext.Kind) error {
	if kind != '"' && kind != '[' {
		return dec.SkipValue()
	}
	if kind == '"' {
		tok, err := dec.ReadToken()
		if err == nil {
			a.command = append(a.command[:0], tok.String()...)
		}
		return err
	}
	for {
		tok, err := dec.ReadToken()
		if err != nil {
			return err
		}
		switch tok.Kind() {
		case '"':
			a.command = append(append(a.command, tok.String()...), ' ')
		case '{':
			return errNotCommand
		case ']':
			return nil
		}
	}
}

// errNotCommand ends the reading of arguments in which a list of words holds
// something else.
var errNotCommand = errors.New("command is no list of words")

var shellWords = []string{"shell", "bash", "sh", "zsh", "powershell", "exec", "execute", "terminal", "command", "cmd", "run", "console"}

func isShell(tool string) bool { return toolname.HasWord(tool, shellWords) }

var (
	pollNameWords = []string{"poll", "wait", "status"}
	outputWords   = []string{"bash", "shell", "terminal", "task", "process", "command", "job", "background"}
	lookWords     = []string{"check", "get", "read", "list", "fetch", "view", "show", "receive", "describe"}
	movingWords   = []string{
		"job", "jobs", "build", "builds", "deployment", "deployments", "pipeline", "pipelines", "run", "runs", "progress", "health", "queue", "message", "messages",
		"inbox", "mail", "mails", "email", "emails", "channel", "notifications", "alerts", "pods",
	}
	changingWords = []string{"set", "update", "change", "write", "create", "delete", "send", "post", "edit", "put"}
)

// pollName reports whether a tool's name alone says that it looks how something
// goes on: poll_results, BashOutput, check_job, receive_message, but not update_status.
func pollName(tool string) bool {
	if toolname.HasWord(tool, changingWords) {
		return false
	}
	return toolname.HasWord(tool, pollNameWords) || toolname.HasWord(tool, []string{"output"}) && toolname.HasWord(tool, outputWords) ||
		toolname.HasWord(tool, lookWords) && toolname.HasWord(tool, movingWords)
}

// pollCommands begin commands that look at the state of something.
var pollCommands = [...]string{
	"docker ps", "docker inspect", "docker logs", "docker compose ps", "kubectl get", "kubectl describe", "kubectl wait",
	"kubectl logs", "kubectl rollout status", "systemctl status", "systemctl is-active", "service ", "supervisorctl status",
	"pgrep", "pidof", "lsof -i", "ss -", "netstat ", "curl -s", "wget -q", "tail ", "gh run view", "gh run list", "gh pr checks",
	"nc -z", "pg_isready", "until ",
}

// pollWords mark a command if they occur anywhere in it as a word.
var pollWords = [...]string{
	"status", "poll", "wait", "watch", "jobs", "health", "ping", "alive", "ready", "check", "ps", "pgrep", "sleep",
}

// changers are commands behind a pipe that change something.
var changers = [...]string{"kill", "pkill", "killall", "xargs kill", "xargs rm", "rm"}

// pollCommand reports whether a shell command only looks at how something goes
// on. Tail counts at the beginning of a command alone, and for a log alone: behind
// a pipe it shortens the output of whatever stands before it, and a file that
// nobody writes to does not change.
func pollCommand(command []byte) bool {
	command = appendLower(nil, command[:min(len(command), maxCommand)])
	if changesBehindPipe(command) {
		return false
	}
	if i := bytes.Index(command, []byte("<<")); i >= 0 {
		command = command[:i]
	}
	for _, w := range pollWords {
		if hasWord(command, w) {
			return true
		}
	}
	separators := func(r rune) bool { return r == ';' || r == '&' || r == '\n' }
	for _, part := range bytes.FieldsFunc(command, separators) {
		part = bytes.TrimPrefix(bytes.TrimSpace(part), []byte("sudo "))
		for _, p := range pollCommands {
			if hasPrefix(part, p) && (p != "tail " || followsLog(part)) {
				return true
			}
		}
	}
	return false
}

func changesBehindPipe(command []byte) bool {
	for i, part := range bytes.Split(command, []byte("|")) {
		for _, c := range changers {
			if part = bytes.TrimSpace(part); i > 0 && hasPrefix(part, c) && (len(part) == len(c) || !isAlnum(part[len(c)])) {
				return true
			}
		}
	}
	return false
}

// followsLog reports whether a tail command is of a file that grows.
func followsLog(command []byte) bool {
	return containsAny(command, []string{" -f", "log", ".out", ".err", "/proc/", "nohup", "output"})
}

// hasWord reports whether text contains word, in any case, with no letter or
// digit of ASCII on either side: "tail" is not in "detail".
func hasWord(text []byte, word string) bool {
	for i := 0; i+len(word) <= len(text); i++ {
		if text[i]|0x20 == word[0] && equalFold(text[i:i+len(word)], word) &&
			(i == 0 || !isAlnum(text[i-1])) && (i+len(word) == len(text) || !isAlnum(text[i+len(word)])) {
			return true
		}
	}
	return false
}

func isAlpha(ch byte) bool { return 'a' <= ch|0x20 && ch|0x20 <= 'z' }

func isAlnum(ch byte) bool { return isAlpha(ch) || '0' <= ch && ch <= '9' }
