package scripted

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
)

// Reply is what to answer: a raw status and body, or a message that is written
// as one JSON document or as a stream, whichever the client asked for.
type Reply struct {
	// Status other than 0 sends Body as it is.
	Status int
	Header http.Header
	Body   []byte

	// Pieces are the message's text; a stream sends one a chunk.
	Pieces    []string
	ToolCalls []ToolCall
	// Hold keeps a stream open after its first piece until the channel is
	// closed or the client leaves. Nil holds nothing.
	Hold <-chan struct{}
}

// ToolCall is a call that the model asks for. A stream sends Arguments in two
// halves.
type ToolCall struct {
	ID        string
	Name      string
	Arguments string
}

// Text is a reply of the given text, one chunk a piece.
func Text(pieces ...string) Reply { return Reply{Pieces: pieces} }

// Tools is a reply that asks for tool calls.
func Tools(calls ...ToolCall) Reply { return Reply{ToolCalls: calls} }

// Error is an error in OpenAI's shape.
func Error(status int, code, message string) Reply {
	body, err := json.Marshal(map[string]any{"error": map[string]any{"message": message, "type": code, "param": nil, "code": code}})
	if err != nil { // strings always encode
		body = nil
	}
	return Reply{Status: status, Header: http.Header{"Content-Type": {"application/json"}}, Body: body}
}

// The time in every answer, in seconds; a constant, so that answers can be
// compared byte for byte.
const created = 1_767_225_600

type echo struct {
	Object string `json:"object"`
	Method string `json:"method"`
	Target string `json:"target"`
	Body   string `json:"body"`
}

type chatCompletion struct {
	ID      string   `json:"id"`
	Object  string   `json:"object"`
	Created int64    `json:"created"`
	Model   string   `json:"model"`
	Choices []choice `json:"choices"`
	Usage   *usage   `json:"usage,omitempty"`
}

type choice struct {
	Index        int      `json:"index"`
	Message      *message `json:"message,omitempty"`
	Delta        *delta   `json:"delta,omitempty"`
	FinishReason *string  `json:"finish_reason"`
}

type message struct {
	Role      string     `json:"role"`
	Content   *string    `json:"content"`
	ToolCalls []toolCall `json:"tool_calls,omitempty"`
}

type delta struct {
	Role      string     `json:"role,omitempty"`
	Content   *string    `json:"content,omitempty"`
	ToolCalls []toolCall `json:"tool_calls,omitempty"`
}

type toolCall struct {
	Index    *int     `json:"index,omitempty"`
	ID       string   `json:"id,omitempty"`
	Type     string   `json:"type,omitempty"`
	Function function `json:"function"`
}

type function struct {
	Name      string `json:"name,omitempty"`
	Arguments string `json:"arguments"`
}

type usage struct {
	PromptTokens     int `json:"prompt_tokens"`
	CompletionTokens int `json:"completion_tokens"`
	TotalTokens      int `json:"total_tokens"`
}

// tokens counts four bytes a token, as good as any for a made-up model.
func tokens(req Request, reply Reply) *usage {
	out := len(strings.Join(reply.Pieces, ""))
	for _, call := range reply.ToolCalls {
		out += len(call.Arguments)
	}
	in := len(req.Body)
	return &usage{PromptTokens: in / 4, CompletionTokens: out / 4, TotalTokens: in/4 + out/4}
}

func head(req Request, object string, choices ...choice) chatCompletion {
	return chatCompletion{
		ID:      fmt.Sprintf("chatcmpl-%06d", req.Number),
		Object:  object,
		Created: created,
		Model:   req.Chat.Model,
		Choices: choices,
	}
}

func finish(reply Reply) *string {
	reason := "stop"
	if len(reply.ToolCalls) > 0 {
		reason = "tool_calls"
	}
	return &reason
}

func completion(req Request, reply Reply) chatCompletion {
	msg := message{Role: "assistant"}
	if len(reply.Pieces) > 0 || len(reply.ToolCalls) == 0 {
		text := strings.Join(reply.Pieces, "")
		msg.Content = &text
	}
	for _, call := range reply.ToolCalls {
		msg.ToolCalls = append(msg.ToolCalls, toolCall{ID: call.ID, Type: "function", Function: function{call.Name, call.Arguments}})
	}
	c := head(req, "chat.completion", choice{Message: &msg, FinishReason: finish(reply)})
	c.Usage = tokens(req, reply)
	return c
}

// deltas are the parts of a streamed message, in the order of sending.
func deltas(reply Reply) []delta {
	empty := ""
	all := []delta{{Role: "assistant", Content: &empty}}
	for _, piece := range reply.Pieces {
		all = append(all, delta{Content: &piece})
	}
	for i, call := range reply.ToolCalls {
		half := len(call.Arguments) / 2
		all = append(all,
			delta{ToolCalls: []toolCall{{Index: &i, ID: call.ID, Type: "function", Function: function{Name: call.Name}}}},
			delta{ToolCalls: []toolCall{{Index: &i, Function: function{Arguments: call.Arguments[:half]}}}},
			delta{ToolCalls: []toolCall{{Index: &i, Function: function{Arguments: call.Arguments[half:]}}}},
		)
	}
	return all
}

// stream sends one event a chunk and tells whether the client stayed.
func stream(ctx context.Context, w http.ResponseWriter, req Request, reply Reply) bool {
	w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
	w.Header().Set("Cache-Control", "no-cache")
	for i, d := range deltas(reply) {
		if !sendEvent(w, head(req, "chat.completion.chunk", choice{Delta: &d})) {
			return false
		}
		if i == 1 && !held(ctx, reply.Hold) {
			return false
		}
	}
	if !sendEvent(w, head(req, "chat.completion.chunk", choice{Delta: &delta{}, FinishReason: finish(reply)})) {
		return false
	}
	if req.Chat.StreamOptions.IncludeUsage {
		last := head(req, "chat.completion.chunk")
		last.Choices = []choice{}
		last.Usage = tokens(req, reply)
		if !sendEvent(w, last) {
			return false
		}
	}
	return send(w, "data: [DONE]\n\n")
}

func held(ctx context.Context, hold <-chan struct{}) bool {
	if hold == nil {
		return true
	}
	select {
	case <-hold:
		return true
	case <-ctx.Done():
		return false
	}
}

func sendEvent(w http.ResponseWriter, event any) bool {
	text, err := json.Marshal(event)
	return err == nil && send(w, "data: "+string(text)+"\n\n")
}

func send(w http.ResponseWriter, text string) bool {
	if _, err := w.Write([]byte(text)); err != nil {
		return false
	}
	return http.NewResponseController(w).Flush() == nil
}

func writeJSON(w http.ResponseWriter, document any) bool {
	text, err := json.Marshal(document)
	if err != nil {
		return false
	}
	w.Header().Set("Content-Type", "application/json")
	_, err = w.Write(text)
	return err == nil
}
