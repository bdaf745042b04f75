// Package event defines the events of loops: their JSON body, their subjects on the
// LOOP_EVENTS stream and their CloudEvents attributes as NATS headers. The body's JSON
// Schema is Schema.
//
// It does not know who publishes or reads events. Events never contain prompt text, keys
// or tool arguments, except for excerpts if a policy enables them.
package event

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"time"

	"github.com/unloop/unloop/schemas"
	"github.com/unloop/unloop/schemas/finding"
)

// Schema is the JSON Schema (2020-12) of an event's body.
//
//go:embed event.schema.json
var Schema []byte

// Type is an event's type, and the first two tokens of its subject.
type Type string

// The events of an incident: detected once, ongoing as it grows, resolved when it has
// ended.
const (
	Detected Type = "loop.detected"
	Ongoing  Type = "loop.ongoing"
	Resolved Type = "loop.resolved"
)

// Event is the body of an event. Its field Event repeats Type for receivers that expect
// that name.
type Event struct {
	Type      Type      `json:"type"`
	Event     Type      `json:"event"`
	ID        string    `json:"id"`
	Timestamp time.Time `json:"timestamp"`
	ProjectID string    `json:"project_id"`
	TenantID  string    `json:"tenant_id"`
	RequestID string    `json:"request_id"`
	Data      Data      `json:"data"`
	// Traceparent names the span of the request that opened the incident, as W3C Trace
	// Context has it; "" without traces.
	Traceparent string `json:"traceparent,omitempty"`
	// Test marks the event of a test message: its loop does not exist.
	Test bool `json:"test,omitempty"`
}

// Data describes the incident at the time of the finding that raised the event.
type Data struct {
	LoopID   string `json:"loop_id"`
	Detector string `json:"detector"`
	Policy   string `json:"policy"`
	Mode     string `json:"mode"`
	Action   string `json:"action"`
	// Answer is AnswerSynthetic if the rejected request got an answer in the model's
	// place, and else empty.
	Answer          string `json:"answer,omitempty"`
	Fingerprint     string `json:"fingerprint"`
	HitCount        int    `json:"hit_count"`
	Threshold       int    `json:"threshold"`
	WindowSeconds   int    `json:"window_seconds"`
	CooldownSeconds int    `json:"cooldown_seconds"`
	Model           string `json:"model,omitempty"`
	// Region is the JetStream domain of the detector that found the loop; "" without one.
	Region string `json:"region,omitempty"`
	// Session and Caller are hashes of the session and of the API key with the end user.
	Session    string    `json:"session,omitempty"`
	Caller     string    `json:"caller,omitempty"`
	Similarity float64   `json:"similarity,omitempty"`
	FirstSeen  time.Time `json:"first_seen"`
	LastSeen   time.Time `json:"last_seen"`
	Findings   []Finding `json:"findings"`
	Saved      Saved     `json:"saved"`
	// Requests is the number of requests in which the loop was found.
	Requests int `json:"requests,omitempty"`
	// Reason says why a loop is resolved: one of the reasons below; "" in other events.
	Reason string `json:"reason,omitempty"`
}

// The values of Data.Mode.
const (
	ModeShadow  = "shadow"
	ModeEnforce = "enforce"
)

// The values of Data.Reason.
const (
	// ReasonExpired means that nothing was found for the incident's window.
	ReasonExpired = "expired"
	// ReasonReleased means that an operator released the loop.
	ReasonReleased = "released"
	// ReasonClosed means that the circuit breaker closed.
	ReasonClosed = "closed"
)

// Finding is what one detector found in the incident.
type Finding struct {
	Detector    string `json:"detector"`
	Action      string `json:"action"`
	Answer      string `json:"answer,omitempty"`
	Fingerprint string `json:"fingerprint"`
	HitCount    int    `json:"hit_count"`
	// Threshold, WindowSeconds and Similarity are those of this detector, as in Data.
	Threshold     int     `json:"threshold,omitempty"`
	WindowSeconds int     `json:"window_seconds,omitempty"`
	Similarity    float64 `json:"similarity,omitempty"`
	// Rule and Tool describe tool loops: the rule that matched, and the tool's name, or
	// the names of a cycle's tools, separated by commas. Text of models that does not
	// look like a name is left out.
	Rule string `json:"rule,omitempty"`
	Tool string `json:"tool,omitempty"`
	// Calls are the calls of a tool loop in their order, at most 8: those of one
	// round of a cycle, or the one call that is repeated.
	Calls []Call `json:"calls,omitempty"`
	// Excerpt is the end of the exchange in which the loop was found, in at most
	// MaxExcerpt runes, if the policy enables it.
	Excerpt string `json:"excerpt,omitempty"`
}

// Facts returns the facts for describing the finding.
func (f *Finding) Facts() finding.Facts {
	return finding.Facts{
		Detector: f.Detector, Rule: f.Rule, Tool: f.Tool, Count: f.HitCount, Threshold: f.Threshold,
		Window: time.Duration(f.WindowSeconds) * time.Second,
	}
}

// Facts returns the facts of the finding that determines the incident's action.
func (d *Data) Facts() finding.Facts {
	facts := finding.Facts{Detector: d.Detector, Count: d.HitCount, Threshold: d.Threshold, Window: time.Duration(d.WindowSeconds) * time.Second}
	for i := range d.Findings {
		if f := d.Findings[i].Facts(); f.Detector == d.Detector && d.Findings[i].Action == d.Action {
			facts.Rule, facts.Tool = f.Rule, f.Tool
			break
		}
	}
	return facts
}

// Call is a tool call of a loop. Call and Result are the first 64 bits of the hashes of
// the tool with its arguments, and of the result, in hex. Result is empty if it is not
// known.
type Call struct {
	Tool   string `json:"tool,omitempty"`
	Call   string `json:"call"`
	Result string `json:"result,omitempty"`
}

// AnswerSynthetic is the value of Data.Answer and Finding.Answer.
const AnswerSynthetic = "synthetic"

// MaxExcerpt is the greatest length of an excerpt, in runes.
const MaxExcerpt = 200

// Saved estimates what the requests that were stopped would have cost, at the prices of the
// policy bundle or the built-in ones: by the usage that the model reported in its newest answer
// to the caller, or else by about four bytes a token of the prompt. USD is absent if no price is
// known.
type Saved struct {
	Requests    int      `json:"requests"`
	InputTokens int      `json:"input_tokens"`
	USD         *float64 `json:"usd,omitempty"`
}

// New returns an event with its type and id set and its time in UTC.
func New(typ Type, id string, at time.Time) Event {
	return Event{Type: typ, Event: typ, ID: id, Timestamp: at.UTC()}
}

// Subject returns the subject of the event: TYPE.TENANT.POLICY.
func (e Event) Subject() string {
	return string(e.Type) + "." + schemas.Token(e.TenantID) + "." + schemas.Token(e.Data.Policy)
}

// Headers returns the CloudEvents 1.0 attributes in NATS binary content mode, and the id
// for JetStream's deduplication.
func (e Event) Headers() map[string][]string {
	h := map[string][]string{
		"Nats-Msg-Id":    {e.ID},
		"ce-specversion": {"1.0"},
		"ce-id":          {e.ID},
		"ce-type":        {string(e.Type)},
		"ce-source":      {"/unloop/detector"},
		"ce-subject":     {e.Data.LoopID},
		"ce-time":        {e.Timestamp.Format(time.RFC3339Nano)},
		"content-type":   {"application/json"},
	}
	if e.Traceparent != "" {
		h["ce-traceparent"] = []string{e.Traceparent}
	}
	return h
}

// Parse reads an event's body. Unknown fields are ignored, so that an older
// reader understands a newer writer.
func Parse(body []byte) (Event, error) {
	var e Event
	if err := json.Unmarshal(body, &e); err != nil {
		return Event{}, fmt.Errorf("parse event: %w", err)
	}
	if e.Type == "" || e.ID == "" {
		return Event{}, fmt.Errorf("parse event: type and id are required")
	}
	return e, nil
}
