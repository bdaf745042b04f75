package detection

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"
)

// media is a picture, a document or a recording: its bytes, or where it is.
type media struct {
	kind string // image, pdf or audio
	data string // its bytes, or
	url  string // its URL, or
	file string // the id of an uploaded file
}

func (m *media) mime() string {
	return map[string]string{"image": "image/png", "pdf": "application/pdf", "audio": "audio/wav"}[m.kind]
}

func (m *media) base64() string { return base64.StdEncoding.EncodeToString([]byte(m.data)) }

// location returns the URL, or the bytes as a data URL.
func (m *media) location() string {
	if m.url != "" {
		return m.url
	}
	return "data:" + m.mime() + ";base64," + m.base64()
}

type object = map[string]any

// wire is a wire format: its path, and the body of a request.
type wire struct {
	name, path string
	body       func(model string, conv []message) object
}

// wires returns the formats in which scenes are played.
func wires() []wire {
	return []wire{
		{"chat", "/v1/chat/completions", chatBody},
		{"responses", "/v1/responses", responsesBody},
		{"anthropic", "/v1/messages", anthropicBody},
		{"gemini", "/v1beta/models/model:generateContent", geminiBody},
		{"ollama", "/api/chat", ollamaBody},
		{"converse", "/model/model/converse", converseBody},
	}
}

// callID returns the id of call k of message i.
func callID(i, k int) string { return fmt.Sprintf("call_%d_%d", i, k) }

func chatBody(model string, conv []message) object {
	var out []object
	for i, m := range conv {
		for k, r := range m.results {
			out = append(out, object{"role": "tool", "tool_call_id": callID(i-1, k), "content": chatContent(r.text, r.media)})
		}
		if m.results != nil {
			continue
		}
		o := object{"role": m.role, "content": chatContent(m.text, m.media)}
		var calls []object
		for k, c := range m.calls {
			calls = append(calls, object{"id": callID(i, k), "type": "function", "function": object{"name": c.tool, "arguments": c.args}})
		}
		if calls != nil {
			o["tool_calls"] = calls
		}
		out = append(out, o)
	}
	return object{"model": model, "messages": out}
}

func chatContent(text string, parts []media) any {
	if len(parts) == 0 {
		return text
	}
	out := []object{{"type": "text", "text": text}}
	for _, m := range parts {
		switch {
		case m.kind == "audio":
			out = append(out, object{"type": "input_audio", "input_audio": object{"data": m.base64(), "format": "wav"}})
		case m.file != "":
			out = append(out, object{"type": "file", "file": object{"file_id": m.file}})
		case m.kind == "pdf":
			out = append(out, object{"type": "file", "file": object{"filename": "document.pdf", "file_data": m.location()}})
		default:
			out = append(out, object{"type": "image_url", "image_url": object{"url": m.location()}})
		}
	}
	return out
}

func responsesBody(model string, conv []message) object {
	var out []object
	for i, m := range conv {
		for k, r := range m.results {
			var output any = r.text
			if r.media != nil {
				output = responsesContent("user", r.text, r.media)
			}
			out = append(out, object{"type": "function_call_output", "call_id": callID(i-1, k), "output": output})
		}
		for k, c := range m.calls {
			out = append(out, object{"type": "function_call", "call_id": callID(i, k), "name": c.tool, "arguments": c.args})
		}
		if m.results == nil && m.calls == nil {
			out = append(out, object{"type": "message", "role": m.role, "content": responsesContent(m.role, m.text, m.media)})
		}
	}
	return object{"model": model, "input": out}
}

func responsesContent(role, text string, parts []media) []object {
	kind := "input_text"
	if role == "assistant" {
		kind = "output_text"
	}
	out := []object{{"type": kind, "text": text}}
	for _, m := range parts {
		part := object{"type": "input_file"}
		switch {
		case m.kind == "image":
			part = object{"type": "input_image"}
			if m.file == "" {
				part["image_url"] = m.location()
			}
		case m.url != "":
			part["file_url"] = m.url
		case m.file == "":
			part["file_data"], part["filename"] = m.location(), "file"
		}
		if m.file != "" {
			part["file_id"] = m.file
		}
		out = append(out, part)
	}
	return out
}

func anthropicBody(model string, conv []message) object {
	body := object{"model": model, "max_tokens": 1024}
	var out []object
	for i, m := range conv {
		if m.role == "system" {
			body["system"] = m.text
			continue
		}
		content := anthropicContent(m.text, m.media)
		for k, c := range m.calls {
			content = append(content, object{"type": "tool_use", "id": callID(i, k), "name": c.tool, "input": json.RawMessage(c.args)})
		}
		for k, r := range m.results {
			content = append(content, object{"type": "tool_result", "tool_use_id": callID(i-1, k), "content": anthropicContent(r.text, r.media)})
		}
		out = append(out, object{"role": m.role, "content": content})
	}
	body["messages"] = out
	return body
}

func anthropicContent(text string, parts []media) []object {
	var out []object
	if text != "" {
		out = append(out, object{"type": "text", "text": text})
	}
	for _, m := range parts {
		kind := "document"
		if m.kind == "image" {
			kind = "image"
		}
		source := object{"type": "base64", "media_type": m.mime(), "data": m.base64()}
		switch {
		case m.url != "":
			source = object{"type": "url", "url": m.url}
		case m.file != "":
			source = object{"type": "file", "file_id": m.file}
		}
		out = append(out, object{"type": kind, "source": source})
	}
	return out
}

func geminiBody(_ string, conv []message) object {
	body := object{}
	var out []object
	for i, m := range conv {
		if m.role == "system" {
			body["systemInstruction"] = object{"parts": []object{{"text": m.text}}}
			continue
		}
		parts := geminiParts(m.text, m.media)
		for _, c := range m.calls {
			parts = append(parts, object{"functionCall": object{"name": c.tool, "args": json.RawMessage(c.args)}})
		}
		for k, r := range m.results {
			parts = append(parts, object{"functionResponse": object{"name": conv[i-1].calls[k].tool, "response": object{"output": r.text}}})
			parts = append(parts, geminiParts("", r.media)...)
		}
		out = append(out, object{"role": strings.Replace(m.role, "assistant", "model", 1), "parts": parts})
	}
	body["contents"] = out
	return body
}

func geminiParts(text string, parts []media) []object {
	var out []object
	if text != "" {
		out = append(out, object{"text": text})
	}
	for _, m := range parts {
		where := m.url
		if m.file != "" {
			where = "https://generativelanguage.googleapis.com/v1beta/files/" + m.file
		}
		if where != "" {
			out = append(out, object{"fileData": object{"mimeType": m.mime(), "fileUri": where}})
			continue
		}
		out = append(out, object{"inlineData": object{"mimeType": m.mime(), "data": m.base64()}})
	}
	return out
}

func ollamaBody(model string, conv []message) object {
	var out []object
	for i, m := range conv {
		for k, r := range m.results {
			out = append(out, ollamaMessage(object{"role": "tool", "tool_name": conv[i-1].calls[k].tool, "content": r.text}, r.media))
		}
		if m.results != nil {
			continue
		}
		o := object{"role": m.role, "content": m.text}
		var calls []object
		for _, c := range m.calls {
			calls = append(calls, object{"function": object{"name": c.tool, "arguments": json.RawMessage(c.args)}})
		}
		if calls != nil {
			o["tool_calls"] = calls
		}
		out = append(out, ollamaMessage(o, m.media))
	}
	return object{"model": model, "messages": out}
}

// ollamaMessage adds media to a message. Ollama takes bytes alone, so that what is
// elsewhere stands for them.
func ollamaMessage(m object, parts []media) object {
	var images []string
	for _, part := range parts {
		if part.data != "" {
			images = append(images, part.base64())
		} else {
			where, _, _ := strings.Cut(part.url, "?") // clients send what they got there
			images = append(images, base64.StdEncoding.EncodeToString([]byte(where+part.file)))
		}
	}
	if images != nil {
		m["images"] = images
	}
	return m
}

func converseBody(_ string, conv []message) object {
	body, out := object{}, []object(nil)
	for i, m := range conv {
		if m.role == "system" {
			body["system"] = []object{{"text": m.text}}
			continue
		}
		content := converseContent(m.text, m.media)
		for k, c := range m.calls {
			content = append(content, object{"toolUse": object{"toolUseId": callID(i, k), "name": c.tool, "input": json.RawMessage(c.args)}})
		}
		for k, r := range m.results {
			content = append(content, object{"toolResult": object{"toolUseId": callID(i-1, k), "content": converseContent(r.text, r.media)}})
		}
		out = append(out, object{"role": m.role, "content": content})
	}
	body["messages"] = out
	return body
}

// converseContent names what is elsewhere by its place in S3.
func converseContent(text string, parts []media) []object {
	var out []object
	if text != "" {
		out = append(out, object{"text": text})
	}
	for _, m := range parts {
		kind := map[string]string{"image": "image", "pdf": "document", "audio": "audio"}[m.kind]
		source := object{"bytes": m.base64()}
		if m.data == "" {
			where, _, _ := strings.Cut(m.url, "?")
			source = object{"s3Location": object{"uri": "s3://bucket/" + where + m.file}}
		}
		out = append(out, object{kind: object{"format": strings.TrimPrefix(m.mime(), "image/"), "source": source}})
	}
	return out
}
