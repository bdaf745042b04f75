package logs

import (
	"cmp"
	"encoding/json"
	"fmt"
	"strings"
)

// part is a part of a message by the GenAI conventions.
type part struct {
	Type      string          `json:"type"`
	Content   json.RawMessage `json:"content"`
	ID        string          `json:"id"`
	Name      string          `json:"name"`
	Arguments json.RawMessage `json:"arguments"`
	Response  json.RawMessage `json:"response"`
	Result    json.RawMessage `json:"result"` // its name in earlier versions
}

// partMessage is a message by the GenAI conventions.
type partMessage struct {
	Role  string `json:"role"`
	Parts []part `json:"parts"`
}

// detailsEvent is an event of a span with its messages.
const detailsEvent = "gen_ai.client.inference.operation.details"

// body builds an OpenAI chat request from a span of any version of the conventions.
func (s *span) body() ([]byte, error) {
	source := s.Attributes
	for _, e := range s.Events {
		if e.Name == detailsEvent {
			source = e.Attributes
		}
	}
	list, err := currentMessages(source)
	if err == nil && len(list) == 0 {
		list = eventMessages(s.Events)
	}
	if err == nil && len(list) == 0 {
		list = indexedMessages(s.Attributes)
	}
	if err != nil {
		return nil, err
	}
	if len(list) == 0 {
		return nil, ErrNoMessages
	}
	return json.Marshal(struct {
		Model    string        `json:"model,omitempty"`
		Messages []chatMessage `json:"messages"`
		Tools    []chatTool    `json:"tools,omitempty"`
	}{s.Attributes.text("gen_ai.request.model"), list, tools(source, s.Attributes)})
}

// currentMessages reads gen_ai.input.messages and gen_ai.system_instructions.
func currentMessages(a attributes) (out []chatMessage, err error) {
	var system []part
	if ok, err := a.decode("gen_ai.system_instructions", &system); ok && err == nil {
		out = append(out, partMessage{Role: "system", Parts: system}.chat()...)
	}
	var list []partMessage
	if ok, err := a.decode("gen_ai.input.messages", &list); !ok {
		return nil, nil
	} else if err != nil {
		return nil, err
	}
	for _, m := range list {
		out = append(out, m.chat()...)
	}
	return out, nil
}

// decode reads a structured attribute, which may also be JSON text.
func (a attributes) decode(name string, to any) (found bool, err error) {
	v, ok := a[name]
	if !ok || v == nil {
		return false, nil
	}
	raw, isText := v.(string)
	if !isText {
		b, err := json.Marshal(v)
		if err != nil {
			return true, fmt.Errorf("read %s: %w", name, err)
		}
		raw = string(b)
	}
	if err := json.Unmarshal([]byte(raw), to); err != nil {
		return true, fmt.Errorf("read %s: %w", name, err)
	}
	return true, nil
}

// chat converts m to OpenAI messages, where each result of a tool is a message of its
// own.
func (m partMessage) chat() (out []chatMessage) {
	main := chatMessage{Role: m.Role}
	var texts []string
	results := false
	for i := range m.Parts {
		switch p := &m.Parts[i]; p.Type {
		case "text":
			texts = append(texts, plainText(p.Content))
		case "tool_call":
			main.ToolCalls = append(main.ToolCalls, chatCall{
				ID: p.ID, Type: "function", Function: chatFunction{Name: p.Name, Arguments: plainText(p.Arguments)},
			})
		case "tool_call_response":
			results = true
			out = append(out, chatMessage{Role: "tool", ToolCallID: p.ID, Content: plainText(firstOf(p.Response, p.Result, p.Content))})
		case "reasoning", "thinking":
		default:
			texts = append(texts, "["+p.Type+"]")
		}
	}
	main.Content = strings.Join(texts, "\n")
	if len(texts) > 0 || len(main.ToolCalls) > 0 || !results {
		out = append(out, main)
	}
	return out
}

func firstOf(values ...json.RawMessage) json.RawMessage {
	for _, v := range values {
		if len(v) > 0 && string(v) != "null" {
			return v
		}
	}
	return nil
}

// plainText returns the text of a JSON string, and other JSON as it is written.
func plainText(raw json.RawMessage) string {
	var s string
	if json.Unmarshal(raw, &s) == nil {
		return s
	}
	return string(raw)
}

// eventMessages reads the events, one a message, of the conventions before 1.37.
func eventMessages(events []spanEvent) (out []chatMessage) {
	for _, e := range events {
		role, ok := map[string]string{
			"gen_ai.system.message": "system", "gen_ai.user.message": "user",
			"gen_ai.assistant.message": "assistant", "gen_ai.tool.message": "tool",
		}[e.Name]
		if !ok {
			continue
		}
		m := chatMessage{Role: cmp.Or(e.Attributes.text("role"), role), Content: e.Attributes.text("content")}
		if role == "tool" {
			m.Role, m.ToolCallID = "tool", e.Attributes.text("id")
		}
		var calls []struct {
			ID       string `json:"id"`
			Function struct {
				Name      string          `json:"name"`
				Arguments json.RawMessage `json:"arguments"`
			} `json:"function"`
		}
		if _, err := e.Attributes.decode("tool_calls", &calls); err == nil {
			for _, c := range calls {
				m.ToolCalls = append(m.ToolCalls, chatCall{c.ID, "function", chatFunction{c.Function.Name, plainText(c.Function.Arguments)}})
			}
		}
		out = append(out, m)
	}
	return out
}

// indexedMessages reads gen_ai.prompt.0.role and so on, as OpenLLMetry writes them.
func indexedMessages(a attributes) (out []chatMessage) {
	for i := 0; ; i++ {
		at := fmt.Sprintf("gen_ai.prompt.%d.", i)
		m := chatMessage{Role: a.text(at + "role"), Content: a.text(at + "content"), ToolCallID: a.text(at + "tool_call_id")}
		if m.Role == "" {
			return out
		}
		for k := 0; ; k++ {
			call := fmt.Sprintf("%stool_calls.%d.", at, k)
			name := a.text(call + "name")
			if name == "" {
				break
			}
			m.ToolCalls = append(m.ToolCalls, chatCall{a.text(call + "id"), "function", chatFunction{name, a.text(call + "arguments")}})
		}
		out = append(out, m)
	}
}

type chatTool struct {
	Type     string         `json:"type"`
	Function map[string]any `json:"function"`
}

// tools reads gen_ai.tool.definitions from the first source that has them.
func tools(sources ...attributes) (out []chatTool) {
	for _, a := range sources {
		var list []map[string]any
		if ok, err := a.decode("gen_ai.tool.definitions", &list); !ok || err != nil {
			continue
		}
		for _, t := range list {
			if inner, ok := t["function"].(map[string]any); ok {
				t = inner
			}
			delete(t, "type")
			out = append(out, chatTool{Type: "function", Function: t})
		}
		return out
	}
	return nil
}

// chatMessage is a message of an OpenAI chat request.
type chatMessage struct {
	Role       string     `json:"role"`
	Content    string     `json:"content"`
	ToolCalls  []chatCall `json:"tool_calls,omitempty"`
	ToolCallID string     `json:"tool_call_id,omitempty"`
}

type chatCall struct {
	ID       string       `json:"id,omitempty"`
	Type     string       `json:"type"`
	Function chatFunction `json:"function"`
}

type chatFunction struct {
	Name      string `json:"name"`
	Arguments string `json:"arguments"`
}
