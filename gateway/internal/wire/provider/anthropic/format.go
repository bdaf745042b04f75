package anthropic

import (
	"net/http"
	"strings"

	"github.com/unloop/unloop/gateway/internal/wire/provider"
)

// header names the version of Anthropic's API.
const header = "Anthropic-Version"

// Format is that of Messages, which Vertex AI has, too.
var Format = &provider.Format{
	Provider:   Messages{},
	Reads:      func(path string) bool { return isMessages(path) || isVertex(path) },
	Path:       "/v1/messages",
	Upstreams:  []*provider.Upstream{Upstream},
	Operation:  "chat",
	PutKey:     provider.PutIn("X-Api-Key"),
	Usage:      Usage,
	LastEvents: []string{"message_stop"},
}

// Usage are Anthropic's names. Cached tokens are counted beside the input.
var Usage = provider.Usage{
	Objects: []string{"usage"},
	Input:   []string{"input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens"}, Cached: []string{"cache_read_input_tokens"}, Output: []string{"output_tokens"},
	MaxOutput: []string{"max_tokens"}, Prompt: []string{"messages", "system", "tools"},
}

// Upstream is Anthropic's API.
var Upstream = &provider.Upstream{
	Name: "anthropic", Title: "Anthropic", Address: "https://api.anthropic.com", Hosts: []string{"api.anthropic.com"}, Header: header, Recorded: []string{"Anthropic-Beta"},
	Versions: []string{"v1"}, Claims: claims, Lacks: isPath, Models: "/v1/models",
	Other:     &provider.Format{Provider: Other{}, PutKey: provider.PutIn("X-Api-Key")},
	Owns:      func(_, key string) bool { return strings.HasPrefix(key, "sk-ant-") },
	Variables: []provider.Variable{{Name: "ANTHROPIC_BASE_URL"}},
}

func claims(r *http.Request, path string) bool { return r.Header.Get(header) != "" || isPath(path) }

// isPath reports whether a path is one of messages, without its version.
func isPath(path string) bool { return path == "messages" || strings.HasPrefix(path, "messages/") }

// isMessages reports whether a path is that of a prompt. OpenAI's Assistants have
// messages, too.
func isMessages(path string) bool {
	return strings.HasSuffix(path, "/messages") && !strings.Contains(path, "/threads/")
}

// isVertex reports whether a path of Vertex AI is that of a prompt. The counting of tokens
// is a model of its own there.
func isVertex(path string) bool {
	_, call, found := strings.Cut(path, "/publishers/anthropic/models/")
	model, method, _ := strings.Cut(call, ":")
	return found && model != "count-tokens" && (method == "rawPredict" || method == "streamRawPredict")
}
