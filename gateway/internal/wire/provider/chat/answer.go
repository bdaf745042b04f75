package chat

import "github.com/unloop/unloop/gateway/internal/wire/provider"

type object = map[string]any

// Answer returns a completion, or its chunks.
func (Chat) Answer(p *provider.Prompt, r provider.Reply) (provider.Answer, error) {
	switch {
	case !p.Answerable():
		return provider.Answer{}, provider.ErrNoAnswer
	case p.Stream:
		return chunks(p, r), nil
	}
	message := object{"role": "assistant", "content": r.Text, "refusal": nil}
	whole := completion(p, r, "chat.completion", object{"index": 0, "message": message, "logprobs": nil, "finish_reason": "stop"})
	whole["usage"] = noUsage()
	return provider.Document(whole), nil
}

func completion(p *provider.Prompt, r provider.Reply, kind string, choices ...object) object {
	if choices == nil {
		choices = []object{}
	}
	return object{"id": "chatcmpl-unloop-" + r.ID, "object": kind, "created": r.At.Unix(), "model": p.Model, "choices": choices}
}

func noUsage() object {
	return object{"prompt_tokens": 0, "completion_tokens": 0, "total_tokens": 0}
}

// chunks returns the role, the text, the end and, if the request asks for it, the usage.
func chunks(p *provider.Prompt, r provider.Reply) provider.Answer {
	var stream provider.Stream
	add := func(delta object, finish any) {
		chunk := completion(p, r, "chat.completion.chunk", object{"index": 0, "delta": delta, "logprobs": nil, "finish_reason": finish})
		if p.StreamUsage {
			chunk["usage"] = nil
		}
		stream.Data(chunk)
	}
	add(object{"role": "assistant", "content": "", "refusal": nil}, nil)
	add(object{"content": r.Text}, nil)
	add(object{}, "stop")
	if p.StreamUsage {
		last := completion(p, r, "chat.completion.chunk")
		last["usage"] = noUsage()
		stream.Data(last)
	}
	stream.Done()
	return stream.Answer()
}
