package bedrock

import (
	"bytes"

	"github.com/unloop/unloop/gateway/internal/wire/provider"
)

type object = map[string]any

// Answer returns a message of one text, or its events.
func (Converse) Answer(p *provider.Prompt, r provider.Reply) (provider.Answer, error) {
	usage := object{"usage": object{"inputTokens": 0, "outputTokens": 0, "totalTokens": 0}, "metrics": object{"latencyMs": 0}}
	switch {
	case !p.Answerable():
		return provider.Answer{}, provider.ErrNoAnswer
	case !p.Stream:
		usage["output"] = object{"message": object{"role": "assistant", "content": []object{{"text": r.Text}}}}
		usage["stopReason"] = "end_turn"
		return provider.Document(usage), nil
	}
	var body []byte
	for _, e := range []struct {
		name     string
		document object
	}{
		{"messageStart", object{"role": "assistant"}},
		{"contentBlockDelta", object{"contentBlockIndex": 0, "delta": object{"text": r.Text}}},
		{"contentBlockStop", object{"contentBlockIndex": 0}},
		{"messageStop", object{"stopReason": "end_turn"}},
		{"metadata", usage},
	} {
		body = append(body, frame(e.name, provider.JSON(e.document))...)
	}
	return provider.Answer{ContentType: typeFrames, Body: body}, nil
}

// Answer returns that of Anthropic's Messages, whose events are wrapped.
func (i Invoke) Answer(p *provider.Prompt, r provider.Reply) (provider.Answer, error) {
	a, err := i.messages.Answer(p, r)
	if err != nil || !p.Stream {
		return a, err
	}
	var body []byte
	for event := range bytes.SplitSeq(a.Body, []byte("\n\n")) {
		if _, document, found := bytes.Cut(event, []byte("data: ")); found {
			body = append(body, chunk("", document)...)
		}
	}
	return provider.Answer{ContentType: typeFrames, Body: body}, nil
}
