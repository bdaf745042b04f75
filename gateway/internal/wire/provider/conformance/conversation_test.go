// Package conformance is the conformance suite of the wire formats: the same
// conversations, written in each format, must say the same.
package conformance

import "encoding/json"

// Conversation is what a request carries, in no format.
type Conversation struct {
	Model  string
	System string
	Tools  []string
	Turns  []Turn
}

// Turn is one message: of a human, of the model, or the results of its calls.
type Turn struct {
	Human   string
	Said    string
	Calls   []Call
	Results []Result
	// Beside is a reminder that the agent put beside the results or the human's
	// words.
	Beside string
}

// Call is a tool call; Args is JSON.
type Call struct{ ID, Tool, Args string }

// Result answers a call.
type Result struct {
	ID, Tool, Text string
	Failed         bool
}

type object = map[string]any

func marshal(v any) []byte {
	b, _ := json.Marshal(v) // texts, and arguments that tests have checked
	return b
}

// Format writes a conversation.
type Format func(Conversation) []byte

// Formats are all of them, by the name of the provider that reads them.
var Formats = map[string]Format{
	"openai-chat": Chat, "openai-responses": Responses, "anthropic-messages": Anthropic, "gemini": Gemini,
	"ollama": Ollama, "bedrock-converse": Converse, "bedrock-anthropic": BedrockAnthropic,
}

// Chat writes Chat Completions.
func Chat(c Conversation) []byte {
	var list, tools []any
	if c.System != "" {
		list = append(list, object{"role": "system", "content": c.System})
	}
	for _, t := range c.Turns {
		list = append(list, chatMessages(t)...)
	}
	for _, name := range c.Tools {
		tools = append(tools, object{"type": "function", "function": object{"name": name, "parameters": object{"type": "object"}}})
	}
	return marshal(object{"model": c.Model, "messages": list, "tools": tools, "temperature": 0.5})
}

func chatMessages(t Turn) (list []any) {
	for _, r := range t.Results {
		list = append(list, object{"role": "tool", "tool_call_id": r.ID, "content": r.Text})
	}
	switch {
	case t.Human != "" && t.Beside != "":
		list = append(list, object{"role": "user", "content": []any{textPart("text", t.Beside), textPart("text", t.Human)}})
	case t.Human != "":
		list = append(list, object{"role": "user", "content": t.Human})
	case t.Beside != "":
		list = append(list, object{"role": "user", "content": t.Beside})
	case len(t.Results) == 0:
		m := object{"role": "assistant", "content": t.Said, "refusal": nil}
		var calls []any
		for _, call := range t.Calls {
			calls = append(calls, object{"id": call.ID, "type": "function", "function": object{"name": call.Tool, "arguments": call.Args}})
		}
		if calls != nil {
			m["tool_calls"] = calls
		}
		list = append(list, m)
	}
	return list
}

func textPart(kind, text string) object { return object{"type": kind, "text": text} }

// Responses writes the Responses API, with the whole history.
func Responses(c Conversation) []byte {
	var list, tools []any
	for _, t := range c.Turns {
		list = append(list, responseItems(t)...)
	}
	for _, name := range c.Tools {
		tools = append(tools, object{"type": "function", "name": name, "parameters": object{"type": "object"}})
	}
	body := object{"model": c.Model, "input": list, "tools": tools}
	if c.System != "" {
		body["instructions"] = c.System
	}
	return marshal(body)
}

func responseItems(t Turn) (list []any) {
	for _, r := range t.Results {
		list = append(list, object{"type": "function_call_output", "call_id": r.ID, "output": r.Text, "id": "fco_" + r.ID})
	}
	message := func(role, kind string, texts ...string) {
		var parts []any
		for _, text := range texts {
			if text != "" {
				parts = append(parts, textPart(kind, text))
			}
		}
		if parts != nil {
			list = append(list, object{"type": "message", "role": role, "content": parts})
		}
	}
	message("user", "input_text", t.Beside, t.Human)
	if t.Said != "" || t.Calls != nil {
		list = append(list, object{"type": "reasoning", "id": "rs_" + t.Said, "summary": []any{}})
	}
	message("assistant", "output_text", t.Said)
	for _, call := range t.Calls {
		list = append(list, object{"type": "function_call", "id": "fc_" + call.ID, "call_id": call.ID, "name": call.Tool, "arguments": call.Args})
	}
	return list
}

// Anthropic writes Messages.
func Anthropic(c Conversation) []byte {
	var list, tools []any
	for _, t := range c.Turns {
		role := "user"
		if t.Said != "" || t.Calls != nil {
			role = "assistant"
		}
		list = append(list, object{"role": role, "content": anthropicBlocks(t)})
	}
	for _, name := range c.Tools {
		tools = append(tools, object{"name": name, "input_schema": object{"type": "object"}})
	}
	body := object{"model": c.Model, "messages": list, "tools": tools, "max_tokens": 1000}
	if c.System != "" {
		body["system"] = []any{object{"type": "text", "text": c.System, "cache_control": object{"type": "ephemeral"}}}
	}
	return marshal(body)
}

func anthropicBlocks(t Turn) (blocks []any) {
	for _, r := range t.Results {
		block := object{"type": "tool_result", "tool_use_id": r.ID, "content": []any{textPart("text", r.Text)}}
		if r.Failed {
			block["is_error"] = true
		}
		blocks = append(blocks, block)
	}
	if t.Said != "" || t.Calls != nil {
		blocks = append(blocks, object{"type": "thinking", "thinking": "hm, " + t.Said, "signature": "c2ln"})
	}
	for _, text := range []string{t.Beside, t.Human, t.Said} {
		if text != "" {
			blocks = append(blocks, textPart("text", text))
		}
	}
	for _, call := range t.Calls {
		blocks = append(blocks, object{"type": "tool_use", "id": call.ID, "name": call.Tool, "input": json.RawMessage(call.Args)})
	}
	return blocks
}

// Gemini writes generateContent.
func Gemini(c Conversation) []byte {
	var list, functions []any
	for _, t := range c.Turns {
		role := "user"
		if t.Said != "" || t.Calls != nil {
			role = "model"
		}
		list = append(list, object{"role": role, "parts": geminiParts(t)})
	}
	for _, name := range c.Tools {
		functions = append(functions, object{"name": name, "parameters": object{"type": "OBJECT"}})
	}
	body := object{"contents": list, "tools": []any{object{"functionDeclarations": functions}}}
	if c.System != "" {
		body["systemInstruction"] = object{"parts": []any{object{"text": c.System}}}
	}
	return marshal(body)
}

func geminiParts(t Turn) (parts []any) {
	for _, r := range t.Results {
		key := "output"
		if r.Failed {
			key = "error"
		}
		parts = append(parts, object{"functionResponse": object{"name": r.Tool, "response": object{key: r.Text}}})
	}
	if t.Said != "" || t.Calls != nil {
		parts = append(parts, object{"text": "hm, " + t.Said, "thought": true})
	}
	for _, text := range []string{t.Beside, t.Human, t.Said} {
		if text != "" {
			parts = append(parts, object{"text": text})
		}
	}
	for _, call := range t.Calls {
		parts = append(parts, object{"functionCall": object{"name": call.Tool, "args": json.RawMessage(call.Args)}, "thoughtSignature": "c2ln" + call.ID})
	}
	return parts
}
