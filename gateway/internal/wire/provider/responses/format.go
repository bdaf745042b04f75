package responses

import (
	"path"
	"strings"

	"github.com/unloop/unloop/gateway/internal/wire/provider"
	"github.com/unloop/unloop/gateway/internal/wire/provider/openai"
)

// Format is that of the Responses API.
var Format = &provider.Format{
	Provider:  Responses{},
	Reads:     func(path string) bool { return strings.HasSuffix(path, "/responses") },
	Path:      "/v1/responses",
	Upstreams: []*provider.Upstream{openai.Upstream},
	Operation: "chat",
	PutKey:    openai.PutKey,
	Usage: provider.Usage{
		Objects: []string{"usage"}, Input: []string{"input_tokens"}, Cached: []string{"input_tokens_details.cached_tokens"}, Output: []string{"output_tokens"},
		MaxOutput: []string{"max_output_tokens"}, Prompt: []string{"input", "instructions", "tools", "prompt"},
	},
	LastEvents: []string{"response.completed", "response.incomplete", "response.failed"},
	Failing:    true,
	Kept:       &provider.Kept{Fetched: fetched, Called: Called},
	NoSocket:   "Responses",
}

// fetched returns the id in a path …/responses/ID.
func fetched(p string) string {
	dir, id := path.Split(p)
	if !strings.HasSuffix(dir, "/responses/") {
		return ""
	}
	return id
}
