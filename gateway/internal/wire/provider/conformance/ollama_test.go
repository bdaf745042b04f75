package conformance

import "encoding/json"

// Ollama writes chats of Ollama's.
func Ollama(c Conversation) []byte {
	var list, tools []any
	if c.System != "" {
		list = append(list, object{"role": "system", "content": c.System})
	}
	for _, t := range c.Turns {
		list = append(list, ollamaMessages(t)...)
	}
	for _, name := range c.Tools {
		tools = append(tools, object{"type": "function", "function": object{"name": name, "parameters": object{"type": "object"}}})
	}
	return marshal(object{"model": c.Model, "messages": list, "tools": tools, "stream": false, "options": object{"temperature": 0.5}})
}

func ollamaMessages(t Turn) (list []any) {
	for _, r := range t.Results {
		list = append(list, object{"role": "tool", "tool_call_id": r.ID, "tool_name": r.Tool, "content": r.Text})
	}
	switch {
	case t.Human != "" && t.Beside != "": // a message has one text
		return append(list, object{"role": "user", "content": t.Beside}, object{"role": "user", "content": t.Human})
	case t.Human != "":
		return append(list, object{"role": "user", "content": t.Human})
	case t.Beside != "":
		return append(list, object{"role": "user", "content": t.Beside})
	case len(t.Results) > 0:
		return list
	}
	m := object{"role": "assistant", "content": t.Said}
	var calls []any
	for _, call := range t.Calls {
		calls = append(calls, object{"type": "function", "id": call.ID, "function": object{"name": call.Tool, "arguments": json.RawMessage(call.Args)}})
	}
	if calls != nil {
		m["tool_calls"], m["thinking"] = calls, "hm"
	}
	return append(list, m)
}

// ollamaParts returns the text of an answer or of the parts of a stream.
func ollamaParts(d []object) (text, end string) {
	for _, part := range d {
		text += textAt(part, "message", "content") + textAt(part, "response")
		end += textAt(part, "done_reason")
	}
	return text, end
}
