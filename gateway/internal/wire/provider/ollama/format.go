package ollama

import (
	"bytes"
	"io"
	"net/http"
	"strings"

	"github.com/unloop/unloop/gateway/internal/wire/provider"
)

// Format is that of Ollama's prompts.
var Format = &provider.Format{
	Provider:  Prompts{},
	Reads:     func(path string) bool { return strings.HasSuffix(path, "/api/chat") || isGenerate(path) },
	Path:      "/api/chat",
	Upstreams: []*provider.Upstream{Upstream},
	Operation: "chat",
	PutKey:    provider.PutBearer,
	Usage: provider.Usage{
		Input: []string{"prompt_eval_count"}, Output: []string{"eval_count"},
		MaxOutput: []string{"options.num_predict"}, Prompt: []string{"messages", "prompt", "system", "tools"},
	},
	Framing:    framing,
	LastMember: "done",
}

// Upstream is an Ollama server on this machine.
var Upstream = &provider.Upstream{
	Name: "ollama", Title: "Ollama", Address: "http://127.0.0.1:11434", Hosts: []string{"ollama.com"},
	Claims: claims, Other: &provider.Format{Provider: Other{}, PutKey: provider.PutBearer}, Models: "/api/tags",
}

// framing is a stream of one document a line.
var framing = &provider.Framing{
	ContentType: "application/x-ndjson",
	Events:      func(into io.Writer) io.Writer { return &lines{into: into} },
	Frame:       func(_ string, document []byte) []byte { return append(bytes.Clone(document), '\n') },
}

// endpoints are the paths of Ollama's API. Other servers have paths in /api, too.
var endpoints = map[string]bool{
	"chat": true, "generate": true, "tags": true, "show": true, "ps": true, "version": true, "embed": true, "embeddings": true,
	"pull": true, "push": true, "create": true, "copy": true, "delete": true,
}

func claims(_ *http.Request, path string) bool {
	endpoint, found := strings.CutPrefix(path, "/api/")
	return found && (endpoints[strings.TrimSuffix(endpoint, "/")] || strings.HasPrefix(endpoint, "blobs/"))
}

func isGenerate(path string) bool { return strings.HasSuffix(path, "/api/generate") }

// lines writes the lines of a stream as events.
type lines struct {
	into io.Writer
	open bool // a line has begun
}

// Write writes what came of the lines.
func (l *lines) Write(p []byte) (int, error) {
	for rest, more := p, true; more; {
		var line []byte
		line, rest, more = bytes.Cut(rest, []byte("\n"))
		if len(line) > 0 && !l.open {
			l.open = true
			_, _ = io.WriteString(l.into, "data: ") // scanners never fail
		}
		_, _ = l.into.Write(line)
		if more && l.open {
			l.open = false
			_, _ = io.WriteString(l.into, "\n\n")
		}
	}
	return len(p), nil
}
