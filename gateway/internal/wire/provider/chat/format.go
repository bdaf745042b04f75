package chat

import (
	"strings"

	"github.com/unloop/unloop/gateway/internal/wire/provider"
	"github.com/unloop/unloop/gateway/internal/wire/provider/openai"
)

// Format is that of Chat Completions.
var Format = &provider.Format{
	Provider:  Chat{},
	Reads:     func(path string) bool { return strings.HasSuffix(path, "/chat/completions") },
	Path:      "/v1/chat/completions",
	Upstreams: []*provider.Upstream{openai.Upstream},
	Operation: "chat",
	PutKey:    openai.PutKey,
	Usage: provider.Usage{
		Objects: []string{"usage"}, Input: []string{"prompt_tokens"}, Cached: []string{"prompt_tokens_details.cached_tokens"}, Output: []string{"completion_tokens"},
		MaxOutput: []string{"max_tokens", "max_completion_tokens"}, Answers: []string{"n", "best_of"}, Prompt: []string{"messages", "prompt", "tools", "functions"},
	},
	LastEvents: []string{"[DONE]"},
}
