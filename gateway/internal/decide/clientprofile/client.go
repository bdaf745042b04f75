package clientprofile

import (
	"slices"
	"strings"
)

// Client is a kind of client.
type Client struct {
	// Name is the client's name in metrics and documentation.
	Name string
	// EndsBy is the weakest answer that is known to end the client's run.
	EndsBy Answer
	// Why is the behavior behind EndsBy, and its source.
	Why string

	match matcher
}

// matcher reports whether a client sent the headers.
type matcher func(header func(name string) string) bool

// clients are the known clients. The first match counts, so that a client comes before the
// SDK that it is built on. deploy/clients tests those in the table of docs/clients.md.
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

// Label returns the client's name in metrics.
func (c *Client) Label() string {
	if c == nil {
		return "unknown"
	}
	return c.Name
}

// Detect returns the client that sent the headers; nil if it is unknown.
func Detect(header func(name string) string) *Client {
	for i := range clients {
		if clients[i].match(header) {
			return &clients[i]
		}
	}
	return nil
}

// agent matches clients by the beginning of a word of their User-Agent, in any case.
func agent(prefixes ...string) matcher { return header("User-Agent", prefixes...) }

// title matches clients by the name that they send to OpenRouter.
func title(name string) matcher {
	return func(of func(string) string) bool { return strings.EqualFold(of("X-Title"), name) }
}

// header matches clients by the beginning of a word of a header, in any case.
func header(name string, prefixes ...string) matcher {
	return func(of func(string) string) bool {
		for word, rest := "", of(name); rest != ""; {
			word, rest, _ = strings.Cut(rest, " ")
			if slices.ContainsFunc(prefixes, func(p string) bool { return len(word) >= len(p) && strings.EqualFold(word[:len(p)], p) }) {
				return true
			}
		}
		return false
	}
}

// either matches what one of two matchers matches.
func either(a, b matcher) matcher {
	return func(of func(string) string) bool { return a(of) || b(of) }
}
