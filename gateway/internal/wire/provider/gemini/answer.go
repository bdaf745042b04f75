package gemini

import (
	"net/url"

	"github.com/unloop/unloop/gateway/internal/wire/provider"
)

type fields = map[string]any

// Answer returns content of one text: a document, an event stream of one, or a list of
// one, as method and query ask.
func (Generate) Answer(p *provider.Prompt, r provider.Reply) (provider.Answer, error) {
	if !p.Answerable() {
		return provider.Answer{}, provider.ErrNoAnswer
	}
	content := fields{
		"candidates": []fields{{
			"content": fields{"parts": []fields{{"text": r.Text}}, "role": "model"}, "finishReason": "STOP", "index": 0,
		}},
		"usageMetadata": fields{"promptTokenCount": 0, "candidatesTokenCount": 0, "totalTokenCount": 0},
		"modelVersion":  p.Model, "responseId": "unloop-" + r.ID,
	}
	switch {
	case !p.Stream:
		return provider.Document(content), nil
	case wantsEvents(r.URL):
		stream := provider.Stream{CRLF: true}
		stream.Data(content)
		return stream.Answer(), nil
	default:
		return provider.Document([]fields{content}), nil
	}
}

// wantsEvents reports whether a stream must consist of events. Otherwise it is one list.
func wantsEvents(u *url.URL) bool {
	if u == nil {
		return false
	}
	query := u.Query()
	return query.Get("alt") == "sse" || query.Get("$alt") == "sse"
}
