// Package textact reads the actions of agents that act in text: a fenced command, lines
// of "Action:", an XML element or a JSON object, and the result in the next message.
//
// It works on plain text. It knows no conversation and no wire format.
package textact

import (
	"bytes"
	"slices"
)

// Form is the form in which an action is written.
type Form uint8

// The forms.
const (
	None  Form = iota
	Label      // lines "Action: search" and "Action Input: …"
	Tag        // <execute>…</execute>, <read_file>…</read_file>
	Fence      // a block between ``` lines
	JSON       // an object with an action, a command or a tool
)

// Action is an action that a model wrote.
type Action struct {
	Form Form
	// Tool is the name of the tool, or the kind of action if the text names none.
	Tool string
	// Mark is the text that announces such actions in instructions: "Action:",
	// "<read_file>", "```".
	Mark string
	// Call is the input of the tool, without the words around it.
	Call []byte
	// Shell says that the input is a command for a shell.
	Shell bool
}

// maxText is the number of bytes at the end of a message that are searched.
const maxText = 64 << 10

// Find returns the last action of a model's message. Its form is None if there is none.
func Find(text []byte) Action {
	text = bytes.TrimSpace(text[max(0, len(text)-maxText):])
	if a := labelled(text); a.Form != None {
		return a
	}
	if a := object(text); a.Form != None {
		return a
	}
	tag, tagEnd := lastTag(text)
	fence, fenceEnd := lastFence(text)
	if fence.Form != None && fenceEnd > tagEnd {
		return fence
	}
	return tag
}

// lastLabel returns where the last line with a label begins, and where its text does; -1
// for none. A number may stand between the label and its colon, and marks of Markdown
// around them.
func lastLabel(text []byte, label string) (at, after int) {
	for end := len(text); end >= 0; {
		start := bytes.LastIndexByte(text[:end], '\n') + 1
		if n := labelAt(text[start:end], label); n > 0 {
			return start, start + n
		}
		end = start - 1
	}
	return -1, -1
}

// labelAt returns the length of the label and its colon at the beginning of a line; 0 for
// none.
func labelAt(line []byte, label string) int {
	i := skip(line, 0, " \t*#>-")
	if len(line)-i < len(label) || !bytes.EqualFold(line[i:i+len(label)], []byte(label)) {
		return 0
	}
	i = skip(line, i+len(label), " *0123456789")
	if i >= len(line) || line[i] != ':' {
		return 0
	}
	return skip(line, i+1, "*")
}

// skip returns the index of the first byte from i on that is not in a set.
func skip(text []byte, i int, set string) int {
	for i < len(text) && bytes.IndexByte([]byte(set), text[i]) >= 0 {
		i++
	}
	return i
}

// labelled reads "Action:" with or without "Action Input:". Text behind an "Observation:"
// that the model made up is ignored.
func labelled(text []byte) Action {
	text, at, after := lastAction(text)
	if at < 0 {
		return Action{}
	}
	call := text[after:]
	if i, _ := firstLabel(call, "Observation"); i >= 0 {
		call = call[:i]
	}
	call = bytes.TrimSpace(call)
	if len(call) == 0 {
		return Action{}
	}
	name := call
	if i, n := firstLabel(call, "Action Input"); i >= 0 {
		name, call = call[:i], append(append(bytes.Clone(bytes.TrimSpace(call[:i])), ' '), bytes.TrimSpace(call[n:])...)
	}
	if a := inner(call); a.Form != None {
		a.Mark = "Action"
		return a
	}
	return Action{Form: Label, Tool: toolName(name, "action"), Mark: "Action", Call: call}
}

// inner reads an action within the text of another, such as LangChain's JSON in a fence
// behind "Action:".
func inner(call []byte) Action {
	if a, _ := lastFence(call); a.Form != None {
		return a
	}
	return object(call)
}

// firstLabel is lastLabel for the first line with one of the labels.
func firstLabel(text []byte, labels ...string) (at, after int) {
	for start := 0; start <= len(text); {
		end := len(text)
		if i := bytes.IndexByte(text[start:], '\n'); i >= 0 {
			end = start + i
		}
		for _, label := range labels {
			if n := labelAt(text[start:end], label); n > 0 {
				return start, start + n
			}
		}
		start = end + 1
	}
	return -1, -1
}

// maxName is the maximum length, in bytes, of a tool's name in a text.
const maxName = 64

// toolName returns the first word of a text if it may be a tool's name.
func toolName(text []byte, otherwise string) string {
	text = bytes.Trim(text, " \t\r\n`*\"'")
	n := 0
	for n < len(text) && nameByte(text[n]) {
		n++
	}
	if n == 0 || n > maxName {
		return otherwise
	}
	return string(text[:n])
}

func nameByte(c byte) bool {
	return 'a' <= c|0x20 && c|0x20 <= 'z' || '0' <= c && c <= '9' || c == '_' || c == '-' || c == '.'
}

// shells are the languages of fences that contain commands for a shell.
var shells = [...]string{"", "bash", "sh", "shell", "zsh", "console", "terminal", "powershell", "cmd", "command", "mswea_bash_command", "execute_bash", "bash_command"}

func isShell(name string) bool { return slices.Contains(shells[:], name) }

// lastFence reads the last block between two lines that begin with ```, and returns its
// end.
func lastFence(text []byte) (a Action, end int) {
	fence := []byte("```")
	if !bytes.Contains(text, fence) { // which is far faster than to look from the end
		return Action{}, 0
	}
	last := bytes.LastIndex(text, fence)
	open := bytes.LastIndex(text[:last], fence)
	if open < 0 {
		return Action{}, 0
	}
	body := text[open+len(fence) : last]
	lang, code, lines := bytes.Cut(body, []byte("\n"))
	if !lines || !isWord(bytes.TrimSpace(lang)) {
		lang, code = nil, body
	}
	code = bytes.Trim(code, "\r\n")
	if len(bytes.TrimSpace(code)) == 0 {
		return Action{}, 0
	}
	end = last + len(fence)
	if a := object(code); a.Form != None {
		return a, end
	}
	if at, after := lastLabel(code, "Action"); at >= 0 && isShape(code[after:]) {
		return Action{}, 0
	}
	name := string(bytes.ToLower(bytes.TrimSpace(lang)))
	return Action{Form: Fence, Tool: toolName([]byte(name), "fence"), Mark: "```", Call: code, Shell: isShell(name)}, end
}

func isWord(text []byte) bool {
	for _, c := range text {
		if !nameByte(c) && c != '+' && c != '#' {
			return false
		}
	}
	return len(text) <= maxName
}
