package scripted

import (
	"fmt"
	"strings"
)

// created is the time in every answer, in seconds. It is constant, so that answers can
// be compared byte for byte.
const created = 1_767_225_600

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

// tokens returns the usage, at four bytes a token.
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

func completion(req Request, reply Reply) any {
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

// deltas returns the parts of a streamed message in their order.
func deltas(reply Reply) []delta {
	empty := ""
	all := []delta{{Role: "assistant", Content: &empty}}
	for _, piece := range reply.Pieces {
		all = append(all, delta{Content: &piece})
	}
	for i, call := range reply.ToolCalls {
		parts := halves(call.Arguments)
		all = append(all,
			delta{ToolCalls: []toolCall{{Index: &i, ID: call.ID, Type: "function", Function: function{Name: call.Name}}}},
			delta{ToolCalls: []toolCall{{Index: &i, Function: function{Arguments: parts[0]}}}},
			delta{ToolCalls: []toolCall{{Index: &i, Function: function{Arguments: parts[1]}}}},
		)
	}
	return all
}

// chatFrames returns the chunks of a streamed completion.
func chatFrames(req Request, reply Reply) []frame {
	var all []frame
	for i, d := range deltas(reply) {
		all = append(all, dataFrame(head(req, "chat.completion.chunk", choice{Delta: &d}), i == 1))
	}
	all = append(all, dataFrame(head(req, "chat.completion.chunk", choice{Delta: &delta{}, FinishReason: finish(reply)}), false))
	if req.Chat.StreamOptions.IncludeUsage {
		last := head(req, "chat.completion.chunk")
		last.Choices = []choice{}
		last.Usage = tokens(req, reply)
		all = append(all, dataFrame(last, false))
	}
	return append(all, frame{text: "data: [DONE]\n\n"})
}
