// Package record defines recordings of LLM traffic: one JSON object a line, as
// gateways append them and as `unloop replay` reads them.
//
// It knows neither who writes recordings nor what is read out of them.
package record

import (
	"encoding/json"
	"time"
)

// Version is the newest version of Record.
const Version = 1

// Record is one request as a gateway saw it. Keys are never recorded; Caller is
// their keyed hash.
type Record struct {
	Version int       `json:"unloop"` // 1
	Time    time.Time `json:"time"`

	Tenant  string `json:"tenant,omitempty"`
	Project string `json:"project,omitempty"`
	Caller  string `json:"caller,omitempty"`
	// Session is a hash of the session's own id, or of that of the one that the
	// request goes on from; absent where it follows from the body alone.
	Session string `json:"session,omitempty"`
	User    string `json:"user,omitempty"`

	Method string `json:"method"`
	Path   string `json:"path"` // with the query, without secrets
	// Upstream is the name of where the request went.
	Upstream string            `json:"upstream,omitempty"`
	Header   map[string]string `json:"header,omitempty"` // lower-case names, without secrets
	Model    string            `json:"model,omitempty"`

	// Body is the body where it is JSON; else Bytes has it, in base64. Both are
	// absent where it was too large, and Length says how large.
	Body   json.RawMessage `json:"body,omitempty"`
	Bytes  []byte          `json:"body_base64,omitempty"`
	Length int64           `json:"body_length,omitempty"`

	// Status, InputTokens, OutputTokens and USD are what came of it; 0 if unknown.
	Status       int     `json:"status,omitempty"`
	InputTokens  int     `json:"input_tokens,omitempty"`
	OutputTokens int     `json:"output_tokens,omitempty"`
	USD          float64 `json:"usd,omitempty"`
	// Action is what was done about a loop; absent where none was found.
	Action string `json:"action,omitempty"`
}
