// Package provider reads the wire formats of LLM APIs: whose key a request
// bears, what it asks, and how a refusal looks to the provider's own SDKs. Each
// format is one folder below; the list of them is in the gateway.
//
// It knows formats, not policies, routes or detectors.
package provider

import (
	"net/http"
	"strings"

	"github.com/unloop/unloop/schemas/fingerprint"
)

// Provider is one wire format.
type Provider interface {
	// Name of the format, as metrics show it.
	Name() string
	// Key returns the API key that the request bears, whole, or "".
	Key(r *http.Request) string
	// Parse reads a request body. It returns nil if the body is valid but asks
	// nothing of a model, and an error if it can't be inspected.
	Parse(body []byte, opts Options) (*Prompt, error)
	// Refusal is the body of an answer that refuses a request, as JSON.
	Refusal(Refusal) []byte
}

// Options say what of a prompt is needed.
type Options struct {
	// Tail is how many of the newest messages are compared.
	Tail int
}

// Prompt is what a request asks of a model.
type Prompt struct {
	Model  string
	Stream bool
	// User is the end user that the request names.
	User string
	// Session is the session that the format's own fields name.
	Session string
	// Opening identifies the conversation by its first system and first human
	// message.
	Opening fingerprint.Digest
	// Tail are the newest messages, oldest first.
	Tail []Message
}

// Message is one message of a prompt, by its digests.
type Message struct {
	// Strict covers role, text, other content, tool calls and tool results,
	// without the ids of calls and messages.
	Strict fingerprint.Digest
	// Text covers the text alone.
	Text fingerprint.Digest
}

// Refusal is why a request was not forwarded.
type Refusal struct {
	Status  int
	Code    string
	Message string
	// Detail is put as it is beside and into the format's own error; nil for
	// none.
	Detail *Detail
}

// Detail tells a client's code about a loop.
type Detail struct {
	Error           string `json:"error"`
	Message         string `json:"message"`
	Detector        string `json:"detector"`
	Policy          string `json:"policy"`
	Fingerprint     string `json:"fingerprint"`
	HitCount        uint32 `json:"hit_count"`
	WindowSeconds   uint32 `json:"window_seconds"`
	CooldownSeconds uint32 `json:"cooldown_seconds"`
	LoopID          string `json:"loop_id"`
}

// Bearer returns the token of an Authorization header; the whole value where
// the scheme is another one.
func Bearer(h http.Header) string {
	value := h.Get("Authorization")
	if scheme, token, ok := strings.Cut(value, " "); ok && strings.EqualFold(scheme, "Bearer") {
		return token
	}
	return value
}
