package ollama

import (
	"slices"
	"time"

	"github.com/unloop/unloop/gateway/internal/wire/provider"
)

type object = map[string]any

// Answer returns a message or a text: one document, or the lines of a stream.
func (Prompts) Answer(p *provider.Prompt, r provider.Reply) (provider.Answer, error) {
	if !p.Answerable() {
		return provider.Answer{}, provider.ErrNoAnswer
	}
	if !p.Stream {
		return provider.Document(last(p, r, r.Text)), nil
	}
	return provider.Answer{ContentType: framing.ContentType, Body: slices.Concat(
		framing.Frame("", provider.JSON(document(p, r, r.Text))), framing.Frame("", provider.JSON(last(p, r, ""))),
	)}, nil
}

// document returns a part of an answer.
func document(p *provider.Prompt, r provider.Reply, text string) object {
	d := object{"model": p.Model, "created_at": r.At.UTC().Format(time.RFC3339Nano), "done": false}
	if r.URL != nil && isGenerate(r.URL.Path) {
		d["response"] = text
	} else {
		d["message"] = object{"role": "assistant", "content": text}
	}
	return d
}

// last returns the end of an answer.
func last(p *provider.Prompt, r provider.Reply, text string) object {
	d := document(p, r, text)
	d["done"], d["done_reason"] = true, "stop"
	for _, count := range []string{"total_duration", "load_duration", "prompt_eval_count", "prompt_eval_duration", "eval_count", "eval_duration"} {
		d[count] = 0
	}
	return d
}
