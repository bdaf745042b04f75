// Package plain is the provider of any HTTP request that is no prompt in a
// known format: its bytes can be counted, and that is all.
package plain

import (
	"encoding/json"
	"net/http"

	"github.com/unloop/unloop/gateway/internal/provider"
)

// Plain implements provider.Provider.
type Plain struct{}

// Name is "http".
func (Plain) Name() string { return "http" }

// Key looks where the known providers have their keys, since other paths of
// theirs come here too.
func (Plain) Key(r *http.Request) string {
	for _, name := range []string{"X-Api-Key", "Api-Key", "X-Goog-Api-Key"} {
		if key := r.Header.Get(name); key != "" {
			return key
		}
	}
	if key := provider.Bearer(r.Header); key != "" {
		return key
	}
	return r.URL.Query().Get("key")
}

// Parse finds no prompt.
func (Plain) Parse([]byte, provider.Options) (*provider.Prompt, error) { return nil, nil }

// Refusal has the shape of OpenAI's errors, which most compatible APIs share.
func (Plain) Refusal(r provider.Refusal) []byte {
	type inner struct {
		Message string           `json:"message"`
		Type    string           `json:"type"`
		Param   *string          `json:"param"`
		Code    string           `json:"code"`
		Detail  *provider.Detail `json:"detail,omitempty"`
	}
	kind := "rate_limit_error"
	if r.Status >= http.StatusInternalServerError {
		kind = "server_error"
	} else if r.Status != http.StatusTooManyRequests {
		kind = "invalid_request_error"
	}
	body, err := json.Marshal(struct {
		Error  inner            `json:"error"`
		Detail *provider.Detail `json:"detail,omitempty"`
	}{inner{r.Message, kind, nil, r.Code, r.Detail}, r.Detail})
	if err != nil {
		return []byte("{}")
	}
	return body
}
