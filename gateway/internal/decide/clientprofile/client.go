package clientprofile

import (
	"slices"
	"strings"
)

// Client is a kind of client, with what ends its run.
type Client struct {
	// Name is the client's name in metrics and documentation.
	Name string
	// EndsBy is the weakest answer that is known to end it.
	EndsBy Answer
	// Why is the behavior that EndsBy follows from, and where that is known from.
	Why string

	match matcher
}

// matcher reports whether the headers are a client's.
type matcher func(header func(name string) string) bool

// clients are the known clients; the first that matches counts, so that a client stands
// before the SDK that it is built on. deploy/clients tests those in the table of
// docs/clients.md.
var clients = []Client{
	{"codex", Refused, "sleeps for the Retry-After of a 429 and goes on; tries 403 and 422 again five times; a 400 ends it (tested)", agent("codex_", "codex-")},
	{"opencode", Refused, "tries a 429 again without end, after Retry-After or a growing pause; a 400 ends it (tested)", agent("opencode/")},
	{"gemini-cli", Refused, "tries a 429 again up to ten times, with pauses of up to 30 s; a 400 ends it (tested)", agent("GeminiCLI")},
	{"qwen-code", Refused, "tries a 429 again up to ten times, after Retry-After or 60 s; a 400 ends it (tested)", agent("QwenCode/")},
	{"ai-sdk", Refused, "sleeps for the Retry-After of a 429 and goes on; a 400 ends it (tested)", agent("ai/", "ai-sdk")},
	{"langchain-js", Refused, "sleeps for the Retry-After of a 429 and goes on; a 400 ends it (tested)", agent("langchainjs")},
	{"cline", Refused, "tries a 429 again three times after Retry-After (src/core/api/retry.ts)", either(agent("Cline/"), title("Cline"))},
	{"roo-code", Refused, "tries any failed request again where automatic approval is on, a 429 after Retry-After (src/core/task/Task.ts)", either(agent("RooCode/"), title("Roo Code"))},
	{"litellm", Refused, "tries a 429 again as often as num_retries says; its users (aider) go on for minutes, and stop at a 400 (aider/exceptions.py)", agent("litellm/")},
	{"aws-sdk", Refused, "tries a 429 again twice, with growing pauses; a 400 ends it (tested in Go)", agent("aws-sdk-", "Boto3/", "Botocore/")},
	{"claude-code", Limited, "ends at a 429 with X-Should-Retry: false (tested)", agent("claude-cli/")},
	{"openai-agents", Limited, "ends at a 429 with X-Should-Retry: false (tested)", agent("Agents/JavaScript", "Agents/Python")},
	{"openai-sdk", Limited, "raises a 429 with X-Should-Retry: false at once (tested in Node and Go)", agent("OpenAI/", "AsyncOpenAI/", "AzureOpenAI/", "AsyncAzureOpenAI/")},
	{"anthropic-sdk", Limited, "raises a 429 with X-Should-Retry: false at once (tested in Node and Go)", agent("Anthropic/", "AsyncAnthropic/")},
	{"google-genai", Limited, "raises a 429 at once unless retries are configured (tested in Node and Go)", header("X-Goog-Api-Client", "google-genai-sdk/")},
	{"stainless-sdk", Limited, "an SDK made by Stainless, which all heed X-Should-Retry", func(of func(string) string) bool { return of("X-Stainless-Lang") != "" }},
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
func agent(beginnings ...string) matcher { return header("User-Agent", beginnings...) }

// title matches clients by the name that they tell OpenRouter.
func title(name string) matcher {
	return func(of func(string) string) bool { return strings.EqualFold(of("X-Title"), name) }
}

// header matches clients by a word of a header that begins in one of these ways.
func header(name string, beginnings ...string) matcher {
	return func(of func(string) string) bool {
		for words := of(name); words != ""; words = nextWord(words) {
			if hasPrefix(words, beginnings) {
				return true
			}
		}
		return false
	}
}

// nextWord returns a text from its second word on.
func nextWord(text string) string {
	const space = " \t"
	if i := strings.IndexAny(text, space); i >= 0 {
		return strings.TrimLeft(text[i:], space)
	}
	return ""
}

// hasPrefix reports whether a text begins in one of these ways, whatever its case.
func hasPrefix(text string, beginnings []string) bool {
	return slices.ContainsFunc(beginnings, func(b string) bool { return len(text) >= len(b) && strings.EqualFold(text[:len(b)], b) })
}

// either matches what one of two matchers does.
func either(a, b matcher) matcher {
	return func(of func(string) string) bool { return a(of) || b(of) }
}
