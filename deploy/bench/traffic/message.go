package traffic

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
)

// message is a message of Chat Completions, in the order in which SDKs write it.
type message struct {
	Role string `json:"role"`
	// Content is a text, a list of parts, or nothing.
	Content    any    `json:"content"`
	ToolCalls  []call `json:"tool_calls,omitempty"`
	ToolCallID string `json:"tool_call_id,omitempty"`
}

type call struct {
	ID       string `json:"id"`
	Type     string `json:"type"`
	Function struct {
		Name      string `json:"name"`
		Arguments string `json:"arguments"`
	} `json:"function"`
}

// addMark adds the placeholder of the mark to the message's texts and arguments, but not to a
// system prompt, which many sessions share.
func (m *message) addMark() {
	if m.Role == "system" || m.Role == "developer" {
		return
	}
	switch content := m.Content.(type) {
	case string:
		m.Content = content + " " + mark
	case []any:
		for _, part := range content {
			if part, ok := part.(object); ok && part["type"] == "text" {
				text, _ := part["text"].(string) // a part without one gets the mark alone
				part["text"] = text + " " + mark
			}
		}
	}
	for i := range m.ToolCalls {
		m.ToolCalls[i].Function.Arguments = markArguments(m.ToolCalls[i].Function.Arguments)
	}
}

// markArguments adds an argument to an object.
func markArguments(arguments string) string {
	rest, isObject := strings.CutPrefix(strings.TrimSpace(arguments), "{")
	switch rest = strings.TrimSpace(rest); {
	case !isObject:
		return arguments + " " + mark
	case rest == "}":
		return `{"run":"` + mark + `"}`
	}
	return `{"run":"` + mark + `", ` + rest
}

// object is an object of JSON.
type object = map[string]any

// toolsOf makes up definitions of the tools that a session calls. Agents send them with every
// request, but recordings don't have them.
func toolsOf(messages []message) (out []object) {
	arguments := map[string]object{}
	for _, m := range messages {
		for _, c := range m.ToolCalls {
			if arguments[c.Function.Name] == nil {
				arguments[c.Function.Name] = object{}
			}
			var values object
			_ = json.Unmarshal([]byte(c.Function.Arguments), &values) // other arguments have no names
			for name := range values {
				arguments[c.Function.Name][name] = object{"type": "string", "description": "The " + strings.ReplaceAll(name, "_", " ") + ", exactly as the user or an earlier result gave it."}
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(arguments)) {
		out = append(out, object{"type": "function", "function": object{
			"name": name,
			"description": "Calls " + strings.ReplaceAll(name, "_", " ") + " and returns its result as text. Use it only when the user has asked for it or " +
				"has confirmed it, and never twice with the same arguments. If the call fails, the result says why.",
			"parameters": object{"type": "object", "properties": arguments[name], "required": slices.Sorted(maps.Keys(arguments[name]))},
		}})
	}
	return out
}
