// Package record defines recordings of LLM traffic: one JSON object a line, as
// gateways append them and as `unloop replay` reads them. A line is a request, or
// the answer to an earlier one: a request is written when it comes, so that it is
// not lost if no answer ever does.
//
// It knows neither who writes recordings nor what is read out of them.
package record

import (
	"encoding/json"
	"time"
)

// Version is the newest version of Record and Answer. In version 1 the request's
// own line had what came of it, and there were no answers.
const Version = 2

// Record is one request as a gateway saw it. Keys are never recorded; Caller is
// their keyed hash.
type Record struct {
	Version int `json:"unloop"`
	// ID is what the answer refers to; unique among all recordings.
	ID   string    `json:"id,omitempty"`
	Time time.Time `json:"time"`

	Tenant string `json:"tenant,omitempty"`
	// TenantVerified says that the tenant is who the client proved to be, not what
	// it calls itself.
	TenantVerified bool `json:"tenant_verified,omitempty"`

	Project string `json:"project,omitempty"`
	Caller  string `json:"caller,omitempty"`
	// Session is a hash of the session's own id, or of that of the one that the
	// request goes on from; absent where it follows from the body alone.
	Session string `json:"session,omitempty"`
	// DerivedSession is the session's hash where Session is absent.
	DerivedSession string `json:"derived_session,omitempty"`
	User           string `json:"user,omitempty"`

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

	// Action is what was done about a loop; absent where none was found.
	Action string `json:"action,omitempty"`
	// Operator is what an operator had done with the request, whatever the policies
	// say: one of the constants below, or absent.
	Operator string `json:"operator,omitempty"`

	// Status, InputTokens, OutputTokens and USD are what came of it in version 1,
	// as in Answer.
	Status       int     `json:"status,omitempty"`
	InputTokens  int     `json:"input_tokens,omitempty"`
	OutputTokens int     `json:"output_tokens,omitempty"`
	USD          float64 `json:"usd,omitempty"`
}

// What an operator can have done with a request.
const (
	Blocked    = "block"       // refused it, by an override
	Exempted   = "exempt"      // had it pass without a check
	KillSwitch = "kill_switch" // refused it, by the bundle
)

// Answer is what came of a recorded request.
type Answer struct {
	Version int       `json:"unloop"`
	To      string    `json:"answer_to"` // the request's ID
	Time    time.Time `json:"time"`      // when the answer ended
	// Status is what the client was answered with; 499 where it left before.
	Status int `json:"status,omitempty"`
	// InputTokens include CachedTokens. All are 0 where the answer does not say,
	// or ended early.
	InputTokens  int `json:"input_tokens,omitempty"`
	CachedTokens int `json:"cached_tokens,omitempty"`
	OutputTokens int `json:"output_tokens,omitempty"`
	// USD is what that cost by the prices in force; 0 without a price.
	USD float64 `json:"usd,omitempty"`
}
