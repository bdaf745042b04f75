package recognize

import (
	"bytes"
	"errors"
	"slices"

	"github.com/unloop/unloop/gateway/internal/text/jsonwalk"
	"github.com/unloop/unloop/schemas/toolname"
)

// maxCommand is the number of bytes of a shell command that are examined. What makes it a
// poll is at its beginning; scripts and here-documents follow.
const maxCommand = 1024

// arguments is what the arguments of a call say about polling.
type arguments struct {
	explicit, poll bool
	hint           bool // the name of an argument speaks of polling
	writes         bool // there is input for stdinTool
	command        []byte
}

// polls reports whether a tool call with these arguments is made again and again while
// something else goes on: looking whether a container is up, a build done, a log longer.
// Such calls get a multiple of the usual thresholds.
//
// A boolean argument "poll" decides. Otherwise a call is a poll if its tool's name says so
// (wait_for_build, get_job_status), or if its tool is a shell and its command or the name
// of another argument does. The commands and words are those of LibreFang's loop guard. The
// values of other arguments don't matter. ok is false for arguments that are no JSON object.
func (a *arguments) polls(tool string, ok bool) bool {
	switch {
	case tool == stdinTool:
		return ok && !a.writes
	case ok && a.explicit:
		return a.poll
	case ok && isShell(tool) && (a.hint || pollCommand(a.command)):
		return true
	}
	return pollName(tool)
}

// stdinTool writes to a running command; with nothing to write, it waits for more
// output.
const stdinTool = "write_stdin"

// readArguments reads arguments in JSON. ok is false if they are no object.
func readArguments(text []byte) (a arguments, ok bool) {
	err := jsonwalk.Text(text, func(w *jsonwalk.Walker) error {
		return w.Object(func(name []byte) error { return a.member(w, string(name)) })
	})
	return a, err == nil || errors.Is(err, jsonwalk.ErrTrailing)
}

// member reads the value of one argument.
func (a *arguments) member(w *jsonwalk.Walker, name string) (err error) {
	switch {
	case name == "poll":
		if kind := w.Kind(); kind == 't' || kind == 'f' {
			a.explicit, a.poll = true, kind == 't'
		}
	case slices.Contains(shellNames, name):
		return a.readCommand(w)
	case name == "chars", name == "input":
		null := w.Kind() == 'n'
		var value []byte
		value, err = w.Raw()
		a.writes = a.writes || !null && string(value) != `""`
	default:
		words := []byte(name)
		a.hint = a.hint || hasWord(words, "status") || hasWord(words, "poll") || hasWord(words, "wait")
	}
	return err
}

// readCommand reads a command line, or the list of a command and its arguments.
func (a *arguments) readCommand(w *jsonwalk.Walker) (err error) {
	switch w.Kind() {
	case '"':
		var line []byte
		line, err = w.Bytes()
		a.command = append(a.command[:0], line...)
	case '[':
		err = w.Array(func() error {
			switch w.Kind() {
			case '"':
				word, err := w.Bytes()
				a.command = append(append(a.command, word...), ' ')
				return err
			case '{', '[':
				return errNotCommand
			}
			return nil
		})
	}
	return err
}

// errNotCommand ends the reading of arguments with a command that is a list of something
// other than words.
var errNotCommand = errors.New("command is not a list of words")

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

// pollName reports whether a tool's name alone says that it checks on something:
// poll_results, BashOutput, check_job, receive_message, but not update_status.
func pollName(tool string) bool {
	if toolname.HasWord(tool, changingWords) {
		return false
	}
	return toolname.HasWord(tool, pollNameWords) || toolname.HasWord(tool, []string{"output"}) && toolname.HasWord(tool, outputWords) ||
		toolname.HasWord(tool, lookWords) && toolname.HasWord(tool, movingWords)
}

// pollCommands begin commands that check the state of something.
var pollCommands = [...]string{
	"docker ps", "docker inspect", "docker logs", "docker compose ps", "kubectl get", "kubectl describe", "kubectl wait",
	"kubectl logs", "kubectl rollout status", "systemctl status", "systemctl is-active", "service ", "supervisorctl status",
	"pgrep", "pidof", "lsof -i", "ss -", "netstat ", "curl -s", "wget -q", "tail ", "gh run view", "gh run list", "gh pr checks",
	"nc -z", "pg_isready", "until ",
}

// pollWords make a command a poll if they occur in it as a word.
var pollWords = [...]string{
	"status", "poll", "wait", "watch", "jobs", "health", "ping", "alive", "ready", "check", "ps", "pgrep", "sleep",
}

// changers are commands after a pipe that change something.
var changers = [...]string{"kill", "pkill", "killall", "xargs kill", "xargs rm", "rm"}

// pollCommand reports whether a shell command only looks at how something goes on. Tail
// counts only at the beginning of a command and for a log: after a pipe it shortens the
// output of another command, and a file that nobody writes to does not change.
func pollCommand(command []byte) bool {
	command = appendLower(nil, command[:min(len(command), maxCommand)])
	if changesAfterPipe(command) {
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
	for _, part := range splitCommand(command) {
		part = bytes.TrimPrefix(bytes.TrimSpace(part), []byte("sudo "))
		for _, p := range pollCommands {
			if hasPrefix(part, p) && (p != "tail " || followsLog(part)) {
				return true
			}
		}
	}
	return false
}

// splitCommand splits a shell command at semicolons, ampersands and line ends.
func splitCommand(command []byte) [][]byte {
	return bytes.FieldsFunc(command, func(r rune) bool { return r == ';' || r == '&' || r == '\n' })
}

func changesAfterPipe(command []byte) bool {
	for i, part := range bytes.Split(command, []byte("|")) {
		for _, c := range changers {
			if part = bytes.TrimSpace(part); i > 0 && hasPrefix(part, c) && (len(part) == len(c) || !isAlnum(part[len(c)])) {
				return true
			}
		}
	}
	return false
}

// followsLog reports whether a tail command reads a file that grows.
func followsLog(command []byte) bool {
	return containsAny(command, []string{" -f", "log", ".out", ".err", "/proc/", "nohup", "output"})
}

// hasWord reports whether text contains word, in any case, without an ASCII letter or
// digit on either side: "tail" is not in "detail".
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
