package anthropic

import "github.com/unloop/unloop/gateway/internal/wire/provider"

type object = map[string]any

// Answer returns a message of one text, or its events.
func (Messages) Answer(p *provider.Prompt, r provider.Reply) (provider.Answer, error) {
	switch {
	case !p.Answerable():
		return provider.Answer{}, provider.ErrNoAnswer
	case p.Stream:
		return events(p, r), nil
	}
	whole := opened(p, r)
	whole["content"], whole["stop_reason"] = []object{{"type": "text", "text": r.Text}}, "end_turn"
	return provider.Document(whole), nil
}

// opened returns a message without its content.
func opened(p *provider.Prompt, r provider.Reply) object {
	return object{
		"id": "msg_unloop_" + r.ID, "type": "message", "role": "assistant", "model": p.Model,
		"content": []object{}, "stop_reason": nil, "stop_sequence": nil,
		"usage": object{"input_tokens": 0, "output_tokens": 0, "cache_creation_input_tokens": 0, "cache_read_input_tokens": 0},
	}
}

func events(p *provider.Prompt, r provider.Reply) provider.Answer {
	var stream provider.Stream
	stream.Typed("message_start", object{"message": opened(p, r)})
	stream.Typed("content_block_start", object{"index": 0, "content_block": object{"type": "text", "text": ""}})
	stream.Typed("content_block_delta", object{"index": 0, "delta": object{"type": "text_delta", "text": r.Text}})
	stream.Typed("content_block_stop", object{"index": 0})
	stream.Typed("message_delta", object{"delta": object{"stop_reason": "end_turn", "stop_sequence": nil}, "usage": object{"output_tokens": 0}})
	stream.Typed("message_stop", object{})
	return stream.Answer()
}
