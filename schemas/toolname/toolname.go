// Package toolname classifies tools by their names. Gateways recognize polls by it, and
// detectors tools that change nothing. It knows neither the arguments of a call nor the
// policies.
package toolname

import "strings"

// thoughtWords are words in the names of tools that record the agent's thoughts or plans.
var thoughtWords = []string{"think", "thinking", "thought", "thoughts", "reflect", "todo", "todos"}

// IsThought reports whether a tool records the agent's thoughts or plans, by its name. Such a
// call changes nothing else.
func IsThought(tool string) bool { return tool == "update_plan" || HasWord(tool, thoughtWords) }

// HasWord reports whether one of words, which are in lower case, is a word of a name
// in snake_case, kebab-case or camelCase.
func HasWord(tool string, words []string) bool {
	for start := 0; start < len(tool); {
		if !isAlpha(tool[start]) {
			start++
			continue
		}
		end := start + 1
		for end < len(tool) && isAlpha(tool[end]) && (tool[end] > 'Z' || tool[end-1] <= 'Z') {
			end++
		}
		for _, w := range words {
			if strings.EqualFold(tool[start:end], w) {
				return true
			}
		}
		start = end
	}
	return false
}

func isAlpha(ch byte) bool { return 'a' <= ch|0x20 && ch|0x20 <= 'z' }
