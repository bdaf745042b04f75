package traffic

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"
	"strings"
)

// message is a message of Chat Completions, in the order in which SDKs write it.
type message struct {
	Role       string          `json:"role"`
	Content    json.RawMessage `json:"content"`
	ToolCalls  []call          `json:"tool_calls,omitempty"`
	ToolCallID string          `json:"tool_call_id,omitempty"`
}

type call struct {
	ID       string `json:"id"`
	Type     string `json:"type"`
	Function struct {
		Name      string `json:"name"`
		Arguments string `json:"arguments"`
	} `json:"function"`
}

// part is a part of a content that is a list.
type part struct {
	Type string `json:"type"`
	Text string `json:"text,omitempty"`
}

// addMark adds the place of the mark to the message's texts and arguments, but not to a
// system prompt, which many sessions share.
func (m *message) addMark() {
	if m.Role == "system" || m.Role == "developer" {
		return
	}
	m.Content = markContent(m.Content)
	m.ToolCalls = slices.Clone(m.ToolCalls)
	for i := range m.ToolCalls {
		m.ToolCalls[i].Function.Arguments = markArguments(m.ToolCalls[i].Function.Arguments)
	}
}

func markContent(content json.RawMessage) json.RawMessage {
	var text string
	var parts []part
	switch {
	case len(content) == 0 || bytes.Equal(content, []byte("null")):
		return content
	case json.Unmarshal(content, &text) == nil:
		return raw(text + " " + mark)
	case json.Unmarshal(content, &parts) == nil:
		for i := range parts {
			if parts[i].Type == "text" {
				parts[i].Text += " " + mark
			}
		}
		return raw(parts)
	}
	return content
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

// raw encodes a value that always can be.
func raw(v any) json.RawMessage {
	out, err := encode(v)
	if err != nil {
		return json.RawMessage("null")
	}
	return out
}

// tool is the definition of a function that the model may call.
type tool struct {
	Type     string   `json:"type"`
	Function function `json:"function"`
}

type function struct {
	Name        string     `json:"name"`
	Description string     `json:"description"`
	Parameters  parameters `json:"parameters"`
}

type parameters struct {
	Type       string              `json:"type"`
	Properties map[string]property `json:"properties"`
	Required   []string            `json:"required"`
}

type property struct {
	Type        string `json:"type"`
	Description string `json:"description"`
}

// toolsOf makes definitions of the tools that a session calls: recordings have none, but
// every request of an agent has.
func toolsOf(messages []message) []tool {
	arguments := map[string]map[string]property{}
	for _, m := range messages {
		for _, c := range m.ToolCalls {
			if arguments[c.Function.Name] == nil {
				arguments[c.Function.Name] = map[string]property{}
			}
			var values map[string]any
			_ = json.Unmarshal([]byte(c.Function.Arguments), &values) // other arguments have no names
			for name := range values {
				arguments[c.Function.Name][name] = property{Type: "string", Description: "The " + strings.ReplaceAll(name, "_", " ") + ", exactly as the user or an earlier result gave it."}
			}
		}
	}
	var out []tool
	for _, name := range slices.Sorted(maps.Keys(arguments)) {
		out = append(out, newTool(name, arguments[name]))
	}
	return out
}

func newTool(name string, properties map[string]property) tool {
	return tool{Type: "function", Function: function{
		Name: name,
		Description: "Calls " + strings.ReplaceAll(name, "_", " ") + " and returns its result as text. Use it only when the user has asked for it or " +
			"has confirmed it, and never twice with the same arguments. If the call fails, the result says why.",
		Parameters: parameters{Type: "object", Properties: properties, Required: slices.Sorted(maps.Keys(properties))},
	}}
}
