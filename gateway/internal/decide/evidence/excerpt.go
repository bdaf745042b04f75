package evidence

import (
	"github.com/unloop/unloop/gateway/internal/text/excerpt"
	"github.com/unloop/unloop/schemas/checkpb"
)

// excerpt returns the end of the newest exchange, for the policies that ask for it; nil if
// none does or there is no text. It is the only text of a request that people may read.
func (m *maker) excerpt() *checkpb.Excerpt {
	var ask []string
	for _, p := range m.Matched {
		if p.IncludeExcerpt {
			ask = append(ask, p.ID)
		}
	}
	if len(ask) == 0 {
		return nil
	}
	said, answered := m.newestTexts()
	text := excerpt.Of(said, answered)
	if text == "" {
		return nil
	}
	return &checkpb.Excerpt{Text: text, Policies: ask}
}

// newestTexts returns the agent's last message and the answer to it, or a tool runner's call
// and its result.
func (m *maker) newestTexts() (said, answered string) {
	switch {
	case m.Run != nil && m.Run.Tool != "":
		return m.Run.Tool + " " + string(m.Run.Arguments), string(m.Run.Result)
	case m.Prompt == nil || m.Prompt.Transcript == nil:
		return "", ""
	default:
		return m.Prompt.Transcript.Exchange(exchangeBytes)
	}
}
