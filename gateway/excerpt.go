package gateway

import (
	"github.com/unloop/unloop/gateway/internal/excerpt"
	"github.com/unloop/unloop/schemas/checkpb"
	"github.com/unloop/unloop/schemas/policy"
)

// excerpt is the end of the newest exchange, for the policies that ask for it;
// nil if none does, or there is no text. No other text of a request is sent for
// people to read.
func (x *exchange) excerpt(policies []*policy.Policy) *checkpb.Excerpt {
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
	case x.run != nil && x.run.tool != "":
		return x.run.tool + " " + string(x.run.arguments), string(x.run.result)
	case x.prompt == nil || x.prompt.Transcript == nil:
		return "", ""
	default:
		return x.prompt.Transcript.Exchange(exchangeBytes)
	}
}
