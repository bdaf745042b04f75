package gateway

import (
	"github.com/unloop/unloop/gateway/internal/bundle"
	"github.com/unloop/unloop/gateway/internal/excerpt"
	"github.com/unloop/unloop/schemas/checkpb"
)

// excerpt is the end of the newest exchange, for the policies that ask for it;
// nil if none does, or there is no text. No other text of a request is sent for
// people to read.
func (x *exchange) excerpt(policies []*bundle.Policy) *checkpb.Excerpt {
	var ask []string
	for _, p := range policies {
		if p.IncludeExcerpt {
			ask = append(ask, p.ID)
		}
	}
	if len(ask) == 0 {
		return nil
	}
	said, answered := x.newestTexts()
	text := excerpt.Of(said, answered)
	if text == "" {
		return nil
	}
	return &checkpb.Excerpt{Text: text, Policies: ask}
}

// newestTexts is what the agent did last and what it was answered. A tool
// runner tells of one call and its result.
func (x *exchange) newestTexts() (said, answered string) {
	switch {
	case x.Run != nil && x.Run.Tool != "":
		return x.Run.Tool + " " + string(x.Run.Arguments), string(x.Run.Result)
	case x.Prompt == nil || x.Prompt.Transcript == nil:
		return "", ""
	default:
		return x.Prompt.Transcript.Exchange(exchangeBytes)
	}
}
