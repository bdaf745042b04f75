package scripted

import (
	"fmt"
	"strings"
)

// response returns an answer of OpenAI's Responses API.
func response(req Request, reply Reply) any {
	answer := openResponse(req, "completed")
	used := tokens(req, reply)
	answer["output"] = outputs(req, reply)
	answer["usage"] = object{
		"input_tokens": used.PromptTokens, "input_tokens_details": object{"cached_tokens": 0},
		"output_tokens": used.CompletionTokens, "output_tokens_details": object{"reasoning_tokens": 0},
		"total_tokens": used.TotalTokens,
	}
	return answer
}

// openResponse returns a response without output.
func openResponse(req Request, status string) object {
	return object{
		"id": fmt.Sprintf("resp_%06d", req.Number), "object": "response", "created_at": created, "status": status,
		"error": nil, "incomplete_details": nil, "instructions": nil, "metadata": object{}, "model": req.Chat.Model,
		"output": []object{}, "parallel_tool_calls": true, "temperature": 1, "tool_choice": "auto", "tools": []object{}, "top_p": 1,
		"usage": nil,
	}
}

// outputs returns the items of a reply.
func outputs(req Request, reply Reply) []object {
	items := []object{}
	if len(reply.Pieces) > 0 {
		items = append(items, said(req, "completed", textOutput(strings.Join(reply.Pieces, ""))))
	}
	for _, call := range reply.ToolCalls {
		items = append(items, called(call, "completed", call.Arguments))
	}
	return items
}

func said(req Request, status string, content ...object) object {
	if content == nil {
		content = []object{}
	}
	return object{"id": fmt.Sprintf("msg_%06d", req.Number), "type": "message", "role": "assistant", "status": status, "content": content}
}

func textOutput(text string) object {
	return object{"type": "output_text", "text": text, "annotations": []object{}, "logprobs": []object{}}
}

func called(call ToolCall, status, arguments string) object {
	return object{"id": "fc_" + call.ID, "type": "function_call", "call_id": call.ID, "name": call.Name, "arguments": arguments, "status": status}
}

// responseStream collects the events of a stream and numbers them.
type responseStream struct {
	req    Request
	output int
	frames []frame
}

func responseFrames(req Request, reply Reply) []frame {
	s := &responseStream{req: req}
	s.add("response.created", object{"response": openResponse(req, "in_progress")})
	s.add("response.in_progress", object{"response": openResponse(req, "in_progress")})
	if len(reply.Pieces) > 0 {
		s.message(reply.Pieces)
	}
	for _, call := range reply.ToolCalls {
		s.call(call)
	}
	s.add("response.completed", object{"response": response(req, reply)})
	return s.frames
}

func (s *responseStream) add(kind string, event object) {
	event["type"], event["sequence_number"] = kind, len(s.frames)
	s.frames = append(s.frames, namedFrame(event, false))
}

func (s *responseStream) message(pieces []string) {
	id := said(s.req, "")["id"]
	part := func(more object) object {
		more["item_id"], more["output_index"], more["content_index"] = id, s.output, 0
		return more
	}
	whole := strings.Join(pieces, "")
	s.add("response.output_item.added", object{"output_index": s.output, "item": said(s.req, "in_progress")})
	s.add("response.content_part.added", part(object{"part": textOutput("")}))
	for i, piece := range pieces {
		s.add("response.output_text.delta", part(object{"delta": piece, "logprobs": []object{}}))
		s.frames[len(s.frames)-1].first = i == 0
	}
	s.add("response.output_text.done", part(object{"text": whole, "logprobs": []object{}}))
	s.add("response.content_part.done", part(object{"part": textOutput(whole)}))
	s.add("response.output_item.done", object{"output_index": s.output, "item": said(s.req, "completed", textOutput(whole))})
	s.output++
}

func (s *responseStream) call(call ToolCall) {
	id := "fc_" + call.ID
	s.add("response.output_item.added", object{"output_index": s.output, "item": called(call, "in_progress", "")})
	for _, half := range halves(call.Arguments) {
		s.add("response.function_call_arguments.delta", object{"item_id": id, "output_index": s.output, "delta": half})
	}
	s.add("response.function_call_arguments.done", object{"item_id": id, "output_index": s.output, "name": call.Name, "arguments": call.Arguments})
	s.add("response.output_item.done", object{"output_index": s.output, "item": called(call, "completed", call.Arguments)})
	s.output++
}
