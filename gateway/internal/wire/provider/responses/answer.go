package responses

import "github.com/unloop/unloop/gateway/internal/wire/provider"

type object = map[string]any

// Answer returns a response of one message, or its events.
func (Responses) Answer(p *provider.Prompt, r provider.Reply) (provider.Answer, error) {
	switch {
	case !p.Answerable():
		return provider.Answer{}, provider.ErrNoAnswer
	case p.Stream:
		return events(p, r), nil
	}
	return provider.Document(completed(p, r)), nil
}

// opened returns a response without its output. It says that the provider does not keep
// it.
func opened(p *provider.Prompt, r provider.Reply) object {
	return object{
		"id": "resp_unloop_" + r.ID, "object": "response", "created_at": r.At.Unix(), "status": "in_progress", "model": p.Model,
		"output": []object{}, "usage": nil, "error": nil, "incomplete_details": nil, "instructions": nil, "metadata": object{},
		"parallel_tool_calls": true, "temperature": 1, "tool_choice": "auto", "tools": []object{}, "top_p": 1,
		"previous_response_id": nil, "max_output_tokens": nil, "store": false, "text": object{"format": object{"type": "text"}},
	}
}

func completed(p *provider.Prompt, r provider.Reply) object {
	whole := opened(p, r)
	whole["status"], whole["output"] = "completed", []object{said(r, "completed", spoken(r.Text))}
	whole["usage"] = object{
		"input_tokens": 0, "input_tokens_details": object{"cached_tokens": 0},
		"output_tokens": 0, "output_tokens_details": object{"reasoning_tokens": 0}, "total_tokens": 0,
	}
	return whole
}

func said(r provider.Reply, status string, content ...object) object {
	if content == nil {
		content = []object{}
	}
	return object{"id": messageID(r), "type": "message", "role": "assistant", "status": status, "content": content}
}

func messageID(r provider.Reply) string { return "msg_unloop_" + r.ID }

func spoken(text string) object {
	return object{"type": "output_text", "text": text, "annotations": []object{}, "logprobs": []object{}}
}

// events returns the stream of a response, with numbered events.
func events(p *provider.Prompt, r provider.Reply) provider.Answer {
	var stream provider.Stream
	n := 0
	add := func(kind string, event object) {
		event["sequence_number"] = n
		stream.Typed(kind, event)
		n++
	}
	part := func(more object) object {
		more["item_id"], more["output_index"], more["content_index"] = messageID(r), 0, 0
		return more
	}
	add("response.created", object{"response": opened(p, r)})
	add("response.in_progress", object{"response": opened(p, r)})
	add("response.output_item.added", object{"output_index": 0, "item": said(r, "in_progress")})
	add("response.content_part.added", part(object{"part": spoken("")}))
	add("response.output_text.delta", part(object{"delta": r.Text, "logprobs": []object{}}))
	add("response.output_text.done", part(object{"text": r.Text, "logprobs": []object{}}))
	add("response.content_part.done", part(object{"part": spoken(r.Text)}))
	add("response.output_item.done", object{"output_index": 0, "item": said(r, "completed", spoken(r.Text))})
	add("response.completed", object{"response": completed(p, r)})
	return stream.Answer()
}
