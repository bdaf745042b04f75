// Package event defines what Unloop says about loops to the outside: the
// event's JSON body, its subjects on the LOOP_EVENTS stream and its
// CloudEvents attributes as NATS headers. The body's JSON Schema is Schema.
//
// It knows nothing of who publishes or reads events. Events never carry
// prompt text, keys or tool arguments, but for the excerpts of policies that ask
// for them.
package event

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"time"

	"github.com/unloop/unloop/schemas"
)

// Schema is the JSON Schema (2020-12) of an event's body.
//
//go:embed event.schema.json
var Schema []byte

// Type is an event's type, and the first two tokens of its subject.
type Type string

// The life of an incident: detected once, ongoing as it grows, resolved when
// it ended.
const (
	Detected Type = "loop.detected"
	Ongoing  Type = "loop.ongoing"
	Resolved Type = "loop.resolved"
)

// Event is the body of an event. Event repeats Type for receivers that expect
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
}

// Data describes the incident, as the finding that raised the event saw it.
type Data struct {
	LoopID   string `json:"loop_id"`
	Detector string `json:"detector"`
	Policy   string `json:"policy"`
	Mode     string `json:"mode"`
	Action   string `json:"action"`
	// Answer is AnswerSynthetic where the rejected request got an answer in the
	// model's place, and else empty.
	Answer          string    `json:"answer,omitempty"`
	Fingerprint     string    `json:"fingerprint"`
	HitCount        int       `json:"hit_count"`
	Threshold       int       `json:"threshold"`
	WindowSeconds   int       `json:"window_seconds"`
	CooldownSeconds int       `json:"cooldown_seconds"`
	Model           string    `json:"model,omitempty"`
	Session         string    `json:"session,omitempty"`
	Similarity      float64   `json:"similarity,omitempty"`
	FirstSeen       time.Time `json:"first_seen"`
	LastSeen        time.Time `json:"last_seen"`
	Findings        []Finding `json:"findings"`
	Saved           Saved     `json:"saved"`
}

// Finding is what one detector found in the incident.
type Finding struct {
	Detector    string `json:"detector"`
	Action      string `json:"action"`
	Answer      string `json:"answer,omitempty"`
	Fingerprint string `json:"fingerprint"`
	HitCount    int    `json:"hit_count"`
	// Rule and Tool say what tool loops are: the rule that was broken, and the
	// tool's name, or the names of a cycle's tools with commas. Names that look like
	// none, which models make up, are left out.
	Rule string `json:"rule,omitempty"`
	Tool string `json:"tool,omitempty"`
	// Excerpt is the end of the exchange in which the detector found it, of at
	// most MaxExcerpt runes; only of policies that ask for it.
	Excerpt string `json:"excerpt,omitempty"`
}

// AnswerSynthetic is the value of Data.Answer and Finding.Answer.
const AnswerSynthetic = "synthetic"

// MaxExcerpt is the length of an excerpt at the most, in runes.
const MaxExcerpt = 200

// Saved estimates what the requests that never reached a model would have
// cost. Dollars are absent where no price is known.
type Saved struct {
	Requests    int      `json:"requests"`
	InputTokens int      `json:"input_tokens"`
	USD         *float64 `json:"usd,omitempty"`
}

// New returns an event with its type and id set and its time in UTC.
func New(typ Type, id string, at time.Time) Event {
	return Event{Type: typ, Event: typ, ID: id, Timestamp: at.UTC()}
}

// Subject is where the event is published: TYPE.TENANT.POLICY.
func (e Event) Subject() string {
	return string(e.Type) + "." + schemas.Token(e.TenantID) + "." + schemas.Token(e.Data.Policy)
}

// Headers are the CloudEvents 1.0 attributes in NATS binary content mode, and
// the id by which JetStream deduplicates.
func (e Event) Headers() map[string][]string {
	return map[string][]string{
		"Nats-Msg-Id":    {e.ID},
		"ce-specversion": {"1.0"},
		"ce-id":          {e.ID},
		"ce-type":        {string(e.Type)},
		"ce-source":      {"/unloop/detector"},
		"ce-subject":     {e.Data.LoopID},
		"ce-time":        {e.Timestamp.Format(time.RFC3339Nano)},
		"content-type":   {"application/json"},
	}
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
