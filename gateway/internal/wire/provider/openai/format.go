package openai

import (
	"net/http"
	"slices"
	"strings"

	"github.com/unloop/unloop/gateway/internal/wire/provider"
)

// Upstream is OpenAI's API.
var Upstream = &provider.Upstream{
	Name: "openai", Title: "OpenAI", Address: "https://api.openai.com", Hosts: []string{"api.openai.com"},
	Versions: []string{"v1"}, Lacks: isPath, Costs: costs, Owns: owns, Models: "/v1/models",
	// aider, LiteLLM and earlier SDKs take the second one.
	Variables: []provider.Variable{{Name: "OPENAI_BASE_URL", Path: "/v1"}, {Name: "OPENAI_API_BASE", Path: "/v1"}},
}

// PutKey puts a key where the client had one: Azure has a header of its own.
func PutKey(out *http.Request, sent http.Header, key string) {
	if sent.Get("Api-Key") != "" {
		out.Header.Set("Api-Key", key)
		return
	}
	provider.PutBearer(out, sent, key)
}

func owns(_, key string) bool {
	return strings.HasPrefix(key, "sk-proj-") || strings.HasPrefix(key, "sk-svcacct-") || strings.HasPrefix(key, "sk-admin-")
}

// isPath reports whether a path is one of OpenAI's API, without its version.
func isPath(path string) bool {
	first, _, _ := strings.Cut(path, "/")
	return slices.Contains([]string{
		"chat", "responses", "completions", "embeddings", "models", "files", "images", "audio", "batches", "moderations", "conversations",
		"assistants", "threads", "vector_stores",
	}, first)
}

// costs reports whether a path asks a model in a format that is not read. Lists, token
// counts, files and the polls of an answer cost nothing.
func costs(path string) bool {
	return strings.HasSuffix(path, "/completions") || strings.HasSuffix(path, "/responses/compact")
}
