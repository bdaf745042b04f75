// Package plain is the provider of HTTP requests that are not prompts in a known format.
// It finds their keys and refuses them; it has no other use for their bodies.
package plain

import (
	"cmp"
	"net/http"

	"github.com/unloop/unloop/gateway/internal/wire/provider"
	"github.com/unloop/unloop/gateway/internal/wire/provider/openai"
	"github.com/unloop/unloop/gateway/internal/wire/repair"
)

// Plain implements provider.Provider. Its refusals have the shape of OpenAI's errors,
// which most compatible APIs share.
type Plain struct{ openai.API }

// Name returns "http".
func (Plain) Name() string { return "http" }

// Key returns the key of any known provider.
func (p Plain) Key(r *http.Request) string {
	return cmp.Or(p.API.Key(r), r.Header.Get("X-Goog-Api-Key"), r.URL.Query().Get("key"))
}

// Parse finds no prompt.
func (Plain) Parse([]byte, provider.Options) (*provider.Prompt, error) { return nil, nil }

// Hint finds no place.
func (Plain) Hint([]byte, string, string) ([]byte, error) { return nil, provider.ErrNoPlace }

// Repair changes nothing.
func (Plain) Repair(body []byte) ([]byte, repair.Report, error) { return body, repair.Report{}, nil }

// Answer has no form.
func (Plain) Answer(*provider.Prompt, provider.Reply) (provider.Answer, error) {
	return provider.Answer{}, provider.ErrNoAnswer
}
