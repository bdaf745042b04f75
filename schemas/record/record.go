// Package record defines recordings of LLM traffic, which gateways append and `unloop
// replay` reads: one JSON object in each line. A line is a request, or the answer to an
// earlier one: a request is written when it arrives, so that it is not lost if no answer
// follows.
//
// It knows neither who writes recordings nor what they are used for.
package record

import (
	"encoding/json"
	"time"
)

// Version is the newest version of Record and Answer. In version 1 the line of the
// request had its result, and there were no answers.
const Version = 2

// Record is one request as a gateway saw it. Keys are never recorded; Caller is
// their keyed hash.
type Record struct {
	Version int `json:"unloop"`
	// ID is unique among all recordings; the answer refers to it.
	ID   string    `json:"id,omitempty"`
	Time time.Time `json:"time"`

	Tenant string `json:"tenant,omitempty"`
	// TenantVerified reports that the client has proved to belong to the tenant.
	TenantVerified bool `json:"tenant_verified,omitempty"`

	Project string `json:"project,omitempty"`
	Caller  string `json:"caller,omitempty"`
	// Session is a hash of the session's own id, or of the session that the request
	// continues; absent if it follows from the body alone.
	Session string `json:"session,omitempty"`
	// DerivedSession is the session's hash if Session is absent.
	DerivedSession string `json:"derived_session,omitempty"`
	User           string `json:"user,omitempty"`

	Method string `json:"method"`
	Path   string `json:"path"` // with the query, without secrets
	// Upstream is the name of the upstream.
	Upstream string            `json:"upstream,omitempty"`
	Header   map[string]string `json:"header,omitempty"` // lower-case names, without secrets
	Model    string            `json:"model,omitempty"`

	// Body is a body of JSON; Bytes is any other body, in base64. Both are absent for a
	// body that was too large; Length is its length.
	Body   json.RawMessage `json:"body,omitempty"`
	Bytes  []byte          `json:"body_base64,omitempty"`
	Length int64           `json:"body_length,omitempty"`

	// Action is the action for a loop; absent if none was found.
	Action string `json:"action,omitempty"`
	// Operator is the effect of an operator's override or kill switch: one of the
	// constants below, or absent.
	Operator string `json:"operator,omitempty"`

	// Status, InputTokens, OutputTokens and USD are the result in version 1, as in Answer.
	Status       int     `json:"status,omitempty"`
	InputTokens  int     `json:"input_tokens,omitempty"`
	OutputTokens int     `json:"output_tokens,omitempty"`
	USD          float64 `json:"usd,omitempty"`
}

// The effects that an operator can have on a request.
const (
	Blocked    = "block"       // refused it, by an override
	Exempted   = "exempt"      // had it pass without a check
	KillSwitch = "kill_switch" // refused it, by the bundle
)

// Answer is the result of a recorded request.
type Answer struct {
	Version int       `json:"unloop"`
	To      string    `json:"answer_to"` // the request's ID
	Time    time.Time `json:"time"`      // when the answer ended
	// Status is the status of the client's answer; 499 if the client left before.
	Status int `json:"status,omitempty"`
	// InputTokens include CachedTokens. All are 0 if the answer has no usage, or ended
	// early.
	InputTokens  int `json:"input_tokens,omitempty"`
	CachedTokens int `json:"cached_tokens,omitempty"`
	OutputTokens int `json:"output_tokens,omitempty"`
	// USD is the cost by the prices in force; 0 without a price.
	USD float64 `json:"usd,omitempty"`
}
