package ending

import "strings"

// Client is a kind of client, with what ends its run.
type Client struct {
	// Name is the client's name in metrics and documentation.
	Name string
	// EndsBy is the weakest answer that is known to end it.
	EndsBy Answer
	// Why is the behavior that EndsBy follows from, and where that is known from.
	Why string

	match func(header func(string) string) bool
}

// clients are the known clients; the first that matches counts, so that a client stands
// before the SDK that it is built on.
var clients = []Client{
	{"codex", Refused, "tries a 429 again after Retry-After, as often as its stream_max_retries say; ends at a 400", agent("codex_", "codex-")},
	{"opencode", Refused, "tries a 429 again after Retry-After without end; ends at a 400", agent("opencode/")},
	{"gemini-cli", Refused, "tries a 429 again up to ten times; ends at a 400", agent("GeminiCLI")},
	{"ai-sdk", Refused, "tries a 429 again twice after Retry-After (maxRetries); throws at a 400", agent("ai/", "ai-sdk/")},
	{"langchain-js", Refused, "tries a 429 again six times with a growing pause; throws at a 400", agent("langchainjs")},
}

// Label names the client in metrics.
func (c *Client) Label() string {
	if c == nil {
		return "unknown"
	}
	return c.Name
}

// Of returns the client that sends the headers; nil if none is known.
func Of(header func(name string) string) *Client {
	for i := range clients {
		if clients[i].match(header) {
			return &clients[i]
		}
	}
	return nil
}

// agent matches clients by a word of their User-Agent that begins in one of these ways.
func agent(beginnings ...string) func(func(string) string) bool {
	return func(header func(string) string) bool {
		for word := range strings.FieldsSeq(header("User-Agent")) {
			for _, beginning := range beginnings {
				if len(word) >= len(beginning) && strings.EqualFold(word[:len(beginning)], beginning) {
					return true
				}
			}
		}
		return false
	}
}
