package textact

import (
	"bytes"
	"slices"
)

// shapes begin the words with which a prompt, or an error about an answer that could not
// be read, describes what an action looks like: "Action: the action to take". shapeWords
// are further ones in such a line.
var (
	shapes     = []string{"the action", "the tool", "the name of", "the command", "action to take", "tool to use", "tool name", "name of the tool", "name of tool", "your action", "your tool", "$action", "$tool", "$input"}
	shapeWords = []string{"should be one of", "must be one of", "has to be one of", "to take, only one"}
)

// isShape reports whether a text describes an action, and is none.
func isShape(text []byte) bool {
	text = bytes.TrimLeft(text, " \t\r\n*`\"'<[{(")
	line, _, _ := bytes.Cut(text[:min(len(text), maxLabel)], []byte("\n"))
	line = bytes.ToLower(line)
	return slices.ContainsFunc(shapes, func(s string) bool { return bytes.HasPrefix(line, []byte(s)) }) ||
		slices.ContainsFunc(shapeWords, func(s string) bool { return bytes.Contains(line, []byte(s)) })
}

// lastAction is lastLabel for an action whose text does not describe one. It returns the
// text before such descriptions, too.
func lastAction(text []byte) (rest []byte, at, after int) {
	at, after = lastLabel(text, "Action")
	for at >= 0 && isShape(text[after:]) {
		text = text[:at]
		at, after = lastLabel(text, "Action")
	}
	return text, at, after
}
