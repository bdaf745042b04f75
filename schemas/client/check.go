package client

import (
	"encoding/json"
	"fmt"
	"net/http"
	"time"
)

// Actions, in rising order of strength. From ActionReject on, a request must
// not be sent.
const (
	ActionAllow    = "allow"
	ActionWarn     = "warn"
	ActionHint     = "hint"
	ActionThrottle = "throttle"
	ActionReject   = "reject"
	ActionBreak    = "break"
)

// Reasons of decisions.
const (
	ReasonLoop      = "loop_detected"
	ReasonLimited   = "rate_limit_exceeded" // a rule's limit is reached, or near
	ReasonKilled    = "kill_switch"         // an operator has stopped such requests
	ReasonUnchecked = "unchecked"           // see Decision.Degraded
	ReasonExempt    = "exempt"              // an operator has such requests not checked
)

// HeaderCheck bears a decision's request id on the request itself, so that a
// gateway on its way does not count it again.
const HeaderCheck = "X-Unloop-Check"

// Request is what a decision is asked for, as POST /unloop/v1/check takes it:
// the request as it would be sent (Body with Path, Method or Format), or in
// short a Prompt or Messages with Model and User, which stand for a Chat
// Completions request.
type Request struct {
	// Format says how Body is read, "openai-chat" for example; empty goes by
	// the path.
	Format string `json:"format,omitempty"`
	// Path with its query, as the request would be sent to; empty means the
	// usual one of Format.
	Path string `json:"path,omitempty"`
	// Method is POST if empty.
	Method string `json:"method,omitempty"`
	// Body is the request's JSON.
	Body json.RawMessage `json:"body,omitempty"`

	// Prompt is the text of a single user message.
	Prompt string `json:"prompt,omitempty"`
	// Messages is a JSON array of Chat Completions messages.
	Messages json.RawMessage `json:"messages,omitempty"`
	// Model and User belong to Prompt and Messages; Body has its own.
	Model string `json:"model,omitempty"`
	User  string `json:"user,omitempty"`

	// Session, Tenant and Project stand for the headers X-Session-ID,
	// X-Tenant-ID and X-Project-ID.
	Session string `json:"session,omitempty"`
	Tenant  string `json:"tenant,omitempty"`
	Project string `json:"project,omitempty"`
	// RequestID names the request, in up to 128 printable ASCII characters;
	// empty has the gateway make one.
	RequestID string `json:"request_id,omitempty"`
	// Peek asks what would happen, and counts nothing.
	Peek bool `json:"peek,omitempty"`

	// Header is sent with the check: the API key in the header that the
	// request itself would bear, so that both are the same caller's, and the
	// headers that policies look at.
	Header http.Header `json:"-"`
}

// Decision answers a Request.
type Decision struct {
	// Action is the strongest one of the findings that are not shadow.
	Action string `json:"action"`
	// Reason of the action, one of the Reason constants; empty if there is
	// nothing to be done.
	Reason string `json:"reason"`
	// Message explains the action; empty if there is nothing to explain.
	Message string `json:"message"`
	// HitCount is the count of the finding that decided; without one, the
	// highest count of the request so far.
	HitCount int `json:"hit_count"`
	// DelayMS is how long to wait before sending, in milliseconds, if the
	// action is ActionThrottle.
	DelayMS int `json:"delay_ms"`
	// RetryAfterSeconds is how long a stop stands; 0 where waiting does not help.
	RetryAfterSeconds int `json:"retry_after_seconds"`
	// LoopID names the incident, if there is one.
	LoopID string `json:"loop_id"`
	// Degraded says why the request was not fully checked; empty if it was.
	// The action is then ActionReject if a policy demands a check, else that
	// of what is known.
	Degraded string `json:"degraded"`
	// RequestID is the id to send the request itself under; see Tag.
	RequestID string `json:"request_id"`
	// Findings of all detectors, the one that decided first.
	Findings []Finding `json:"findings"`
}

// Finding is what one detector of one policy found.
type Finding struct {
	Policy   string `json:"policy"`
	Detector string `json:"detector"`
	Action   string `json:"action"`
	// Shadow marks what is only reported.
	Shadow          bool   `json:"shadow"`
	Fingerprint     string `json:"fingerprint"`
	HitCount        int    `json:"hit_count"`
	Threshold       int    `json:"threshold"`
	WindowSeconds   int    `json:"window_seconds"`
	CooldownSeconds int    `json:"cooldown_seconds"`
	LoopID          string `json:"loop_id"`
	// Rule, Tool and BackoffSeconds belong to findings about tool calls: what
	// was found, in which tool's calls, and how long to wait before the next
	// poll. Message says it in words.
	Rule           string `json:"rule,omitempty"`
	Tool           string `json:"tool,omitempty"`
	BackoffSeconds int    `json:"backoff_seconds,omitempty"`
	Message        string `json:"message,omitempty"`
}

// Allowed says whether the request may be sent, after Delay.
func (d *Decision) Allowed() bool { return !stops(d.Action) }

// Delay is how long to wait before sending.
func (d *Decision) Delay() time.Duration { return time.Duration(max(d.DelayMS, 0)) * time.Millisecond }

// Tag marks the request that was decided on, for it to count once.
func (d *Decision) Tag(req *http.Request) { req.Header.Set(HeaderCheck, d.RequestID) }

// Err is a *LoopDetectedError if a loop is to be stopped, ErrUnchecked if a
// policy stops what could not be checked, ErrKilled if an operator stops it,
// ErrLimited if a rule does, and nil if the request may be sent.
func (d *Decision) Err() error {
	switch {
	case d.Allowed():
		return nil
	case d.Reason == ReasonUnchecked:
		return fmt.Errorf("%w: %s", ErrUnchecked, d.Message)
	case d.Reason == ReasonKilled:
		return fmt.Errorf("%w: %s", ErrKilled, d.Message)
	case d.Reason == ReasonLimited:
		return fmt.Errorf("%w: %s", ErrLimited, d.Message)
	}
	var f Finding
	if len(d.Findings) > 0 && !d.Findings[0].Shadow {
		f = d.Findings[0]
	}
	return &LoopDetectedError{
		Message: d.Message, Action: d.Action, Detector: f.Detector, Policy: f.Policy, Fingerprint: f.Fingerprint,
		HitCount: f.HitCount, Window: seconds(f.WindowSeconds), Cooldown: seconds(f.CooldownSeconds),
		LoopID: d.LoopID, RetryAfter: seconds(d.RetryAfterSeconds),
	}
}
