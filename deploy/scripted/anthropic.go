package scripted

import (
	"encoding/json"
	"fmt"
	"strings"
)

// anthropicMessage returns an answer of Anthropic's Messages API.
func anthropicMessage(req Request, reply Reply) any {
	blocks := []object{}
	if said := strings.Join(reply.Pieces, ""); said != "" {
		blocks = append(blocks, object{"type": "text", "text": said})
	}
	for _, call := range reply.ToolCalls {
		blocks = append(blocks, object{"type": "tool_use", "id": call.ID, "name": call.Name, "input": json.RawMessage(call.Arguments)})
	}
	message := emptyMessage(req)
	used := tokens(req, reply)
	message["content"], message["stop_reason"] = blocks, stopReason(reply)
	message["usage"] = object{"input_tokens": used.PromptTokens, "output_tokens": used.CompletionTokens}
	return message
}

// emptyMessage returns the message at the beginning of a stream.
func emptyMessage(req Request) object {
	return object{
		"id": fmt.Sprintf("msg_%06d", req.Number), "type": "message", "role": "assistant", "model": req.Chat.Model,
		"content": []object{}, "stop_reason": nil, "stop_sequence": nil,
		"usage": object{"input_tokens": len(req.Body) / 4, "output_tokens": 1},
	}
}

func stopReason(reply Reply) string {
	if len(reply.ToolCalls) > 0 {
		return "tool_use"
	}
	return "end_turn"
}

// anthropicFrames returns the events of a streamed message.
func anthropicFrames(req Request, reply Reply) []frame {
	all := []frame{namedFrame(object{"type": "message_start", "message": emptyMessage(req)}, false)}
	index := 0
	if len(reply.Pieces) > 0 {
		all = append(all, textBlock(index, reply.Pieces)...)
		index++
	}
	for _, call := range reply.ToolCalls {
		all = append(all, toolBlock(index, call)...)
		index++
	}
	return append(all,
		namedFrame(object{
			"type": "message_delta", "delta": object{"stop_reason": stopReason(reply), "stop_sequence": nil},
			"usage": object{"output_tokens": tokens(req, reply).CompletionTokens},
		}, false),
		namedFrame(object{"type": "message_stop"}, false),
	)
}

// textBlock returns the events of one block of text, with a ping as in Anthropic's
// streams.
func textBlock(index int, pieces []string) []frame {
	all := []frame{
		namedFrame(object{"type": "content_block_start", "index": index, "content_block": object{"type": "text", "text": ""}}, false),
		namedFrame(object{"type": "ping"}, false),
	}
	for i, piece := range pieces {
		all = append(all, blockDelta(index, object{"type": "text_delta", "text": piece}, i == 0))
	}
	return append(all, namedFrame(object{"type": "content_block_stop", "index": index}, false))
}

// toolBlock returns the events of one tool call.
func toolBlock(index int, call ToolCall) []frame {
	start := object{"type": "tool_use", "id": call.ID, "name": call.Name, "input": object{}}
	all := []frame{
		namedFrame(object{"type": "content_block_start", "index": index, "content_block": start}, false),
		blockDelta(index, object{"type": "input_json_delta", "partial_json": ""}, false),
	}
	for _, half := range halves(call.Arguments) {
		all = append(all, blockDelta(index, object{"type": "input_json_delta", "partial_json": half}, false))
	}
	return append(all, namedFrame(object{"type": "content_block_stop", "index": index}, false))
}

func blockDelta(index int, delta object, first bool) frame {
	return namedFrame(object{"type": "content_block_delta", "index": index, "delta": delta}, first)
}
