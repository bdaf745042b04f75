package scan

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/unloop/unloop/schemas/excerpts"
)

// longestStory is the most that is shown of a call or a prompt, in characters.
const longestStory = 60

// What returns what the loop repeats: the command or another argument of its newest call, or
// else the beginning of the prompt. It is "" if that is not known.
func (l *Loop) What() string {
	for _, r := range slices.Backward(l.Shown.Rounds) {
		if r.Tool != "" && (len(l.Tools) == 0 || l.has(r.Tool)) {
			return begin(call(r))
		}
	}
	if n := len(l.Shown.Rounds); n > 0 && l.Shown.Rounds[n-1].Said != "" {
		return begin(l.Shown.Rounds[n-1].Said)
	}
	return begin(l.Shown.Prompt)
}

func (l *Loop) has(tool string) bool {
	for _, t := range l.Tools {
		if strings.EqualFold(t, tool) {
			return true
		}
	}
	return false
}

// telling are the arguments that say most about a call, the best first.
var telling = []string{"command", "cmd", "file_path", "path", "query", "pattern", "url"}

// call returns a call in a few words.
func call(r excerpts.Round) string {
	var arguments map[string]any
	if json.Unmarshal([]byte(r.Arguments), &arguments) != nil {
		return strings.TrimSpace(r.Tool + " " + r.Arguments)
	}
	for _, name := range telling {
		if s, ok := arguments[name].(string); ok && s != "" {
			if strings.HasPrefix(name, "c") {
				return s
			}
			return r.Tool + " " + s
		}
	}
	if len(arguments) == 0 {
		return r.Tool
	}
	return r.Tool + " " + r.Arguments
}

// begin returns the first words of a text on one line.
func begin(text string) string {
	text = strings.Join(strings.Fields(text), " ")
	runes := []rune(text)
	if len(runes) <= longestStory {
		return text
	}
	return string(runes[:longestStory-1]) + "…"
}
