// Package plain is the provider of any HTTP request that is no prompt in a
// known format: its bytes can be counted, and that is all.
package plain

import (
	"net/http"

	"github.com/unloop/unloop/gateway/internal/provider"
	"github.com/unloop/unloop/gateway/internal/provider/openai"
	"github.com/unloop/unloop/gateway/internal/repair"
)

// Plain implements provider.Provider.
type Plain struct{}

// Name is "http".
func (Plain) Name() string { return "http" }

// Key looks where the known providers have their keys.
func (Plain) Key(r *http.Request) string {
	if key := openai.Key(r); key != "" {
		return key
	}
	if key := r.Header.Get("X-Goog-Api-Key"); key != "" {
		return key
	}
	return r.URL.Query().Get("key")
}

// Parse finds no prompt.
func (Plain) Parse([]byte, provider.Options) (*provider.Prompt, error) { return nil, nil }

// Refusal has the shape of OpenAI's errors, which most compatible APIs share.
func (Plain) Refusal(r provider.Refusal) []byte { return openai.Refusal(r) }

// Hint has no place in what is no prompt.
func (Plain) Hint([]byte, string, string) ([]byte, error) { return nil, provider.ErrNoPlace }

// Repair changes nothing.
func (Plain) Repair(body []byte) ([]byte, repair.Report, error) { return body, repair.Report{}, nil }

// Answer has no form for what is no prompt.
func (Plain) Answer(*provider.Prompt, provider.Reply) (provider.Answer, error) {
	return provider.Answer{}, provider.ErrNoAnswer
}
