package replay

import (
	"encoding/json"
	"fmt"
	"time"
)

// recordVersion is the newest version of [Record] that is read.
const recordVersion = 1

// Record is one line of our own recordings: a request as a gateway saw it. Keys
// are never recorded; Caller is their keyed hash.
type Record struct {
	Version int       `json:"unloop"` // 1
	Time    time.Time `json:"time"`

	Tenant  string `json:"tenant,omitempty"`
	Project string `json:"project,omitempty"`
	Caller  string `json:"caller,omitempty"`
	Session string `json:"session,omitempty"`
	User    string `json:"user,omitempty"`

	Method string            `json:"method"`
	Path   string            `json:"path"`             // with the query
	Header map[string]string `json:"header,omitempty"` // lower-case names, without secrets
	Model  string            `json:"model,omitempty"`

	// Body is the body where it is JSON; else Bytes has it, in base64.
	Body  json.RawMessage `json:"body,omitempty"`
	Bytes []byte          `json:"body_base64,omitempty"`

	// Status, InputTokens, OutputTokens and USD are what came of it; 0 if unknown.
	Status       int     `json:"status,omitempty"`
	InputTokens  int     `json:"input_tokens,omitempty"`
	OutputTokens int     `json:"output_tokens,omitempty"`
	USD          float64 `json:"usd,omitempty"`
}

func readRecord(o object, out *sink) {
	body := o["body"]
	delete(o, "body") // it is large, and goes on as it is
	var r Record
	rest, err := json.Marshal(o)
	if err == nil {
		err = json.Unmarshal(rest, &r)
	}
	if err != nil {
		out.fail(fmt.Errorf("read a recorded request: %w", err))
		return
	}
	if r.Version < 1 || r.Version > recordVersion {
		out.fail(fmt.Errorf("%w: version %d", ErrVersion, r.Version))
		return
	}
	if len(body) == 0 {
		body = r.Bytes
	}
	out.request(Request{
		Source: Recording, Time: r.Time, Method: r.Method, Path: r.Path, Header: r.Header,
		Tenant: r.Tenant, Project: r.Project, Caller: r.Caller, Session: r.Session, User: r.User, Model: r.Model,
		Body: body, Status: r.Status, InputTokens: r.InputTokens, OutputTokens: r.OutputTokens, USD: r.USD,
	})
}
