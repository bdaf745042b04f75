package client

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"
	"time"
)

// Actions, in rising order of strength. A request must not be sent from ActionReject
// on.
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
	ReasonLimited   = "rate_limit_exceeded" // a rule's limit is reached, or nearly
	ReasonKilled    = "kill_switch"         // an operator stops such requests
	ReasonUnchecked = "unchecked"           // see Decision.Degraded
	ReasonExempt    = "exempt"              // an operator exempts such requests from checks
)

// HeaderCheck is the header in which a request carries the request id of its decision,
// so that a gateway on its way does not count it again.
const HeaderCheck = "X-Unloop-Check"

// Request is the body of POST /unloop/v1/check: the request as it would be sent (Body
// with Path, Method or Format), or a short form of a Chat Completions request (Prompt or
// Messages with Model and User).
type Request struct {
	// Format is the wire format of Body, "openai-chat" for example; empty to choose it
	// by the path.
	Format string `json:"format,omitempty"`
	// Path is the path, with its query, that the request would be sent to; empty means
	// the usual one of Format.
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
	// Probe tests whether loops are found: the request is counted and decided as any
	// other, but raises no incident and no event. Texts are not compared.
	Probe bool `json:"probe,omitempty"`

	// Header is sent with the check: the request's own API key, so that both have the
	// same caller, and the headers that policies use.
	Header http.Header `json:"-"`
}

// Decision answers a Request.
type Decision struct {
	// Action is the strongest action of the findings that are not shadow.
	Action string `json:"action"`
	// Reason of the action is one of the Reason constants; empty without an action.
	Reason string `json:"reason"`
	// Message explains the action; empty without one.
	Message string `json:"message"`
	// HitCount is the count of the finding that decided; without a finding it is the
	// highest count of the request so far.
	HitCount int `json:"hit_count"`
	// DelayMS is how long to wait before sending, in milliseconds, if the
	// action is ActionThrottle.
	DelayMS int `json:"delay_ms"`
	// RetryAfterSeconds is after how long a stopped request passes if nothing else is sent; 0
	// if waiting does not help.
	RetryAfterSeconds int `json:"retry_after_seconds"`
	// LoopID names the incident, if there is one.
	LoopID string `json:"loop_id"`
	// Degraded says why the request was not fully checked; empty if it was. The action
	// is then ActionReject if a policy demands a check, else that of the known findings.
	Degraded string `json:"degraded"`
	// RequestID is the id to send the request itself under; see Tag.
	RequestID string `json:"request_id"`
	// Findings are those of all detectors; the first one decided.
	Findings []Finding `json:"findings"`
}

// Finding is what one detector of one policy found.
type Finding struct {
	Policy   string `json:"policy"`
	Detector string `json:"detector"`
	Action   string `json:"action"`
	// Shadow marks a finding that is only reported.
	Shadow          bool   `json:"shadow"`
	Fingerprint     string `json:"fingerprint"`
	HitCount        int    `json:"hit_count"`
	Threshold       int    `json:"threshold"`
	WindowSeconds   int    `json:"window_seconds"`
	CooldownSeconds int    `json:"cooldown_seconds"`
	LoopID          string `json:"loop_id"`
	// Rule, Tool and BackoffSeconds belong to findings about tool calls: the rule, the
	// tool, and how long to wait before the next poll. Message explains the finding.
	Rule           string `json:"rule,omitempty"`
	Tool           string `json:"tool,omitempty"`
	BackoffSeconds int    `json:"backoff_seconds,omitempty"`
	Message        string `json:"message,omitempty"`
}

// Allowed reports whether the request may be sent, after Delay.
func (d *Decision) Allowed() bool { return !stops(d.Action) }

// Delay returns how long to wait before sending.
func (d *Decision) Delay() time.Duration { return time.Duration(max(d.DelayMS, 0)) * time.Millisecond }

// Tag marks the request that was checked, so that a gateway does not count it again.
func (d *Decision) Tag(req *http.Request) { req.Header.Set(HeaderCheck, d.RequestID) }

// Err returns nil if the request may be sent, and else a *LoopDetectedError for a loop,
// ErrUnchecked if a policy forbids unchecked requests, ErrKilled if an operator stops
// the request, or ErrLimited if a rule does.
func (d *Decision) Err() error {
	if d.Allowed() {
		return nil
	}
	return stopped(d.Reason, d.Findings, LoopDetectedError{
		Message: d.Message, Action: d.Action, HitCount: d.HitCount, LoopID: d.LoopID, RetryAfter: seconds(d.RetryAfterSeconds),
	})
}

// stopped returns the error for a reason: that of the finding that decided, if it is a loop.
func stopped(reason string, findings []Finding, loop LoopDetectedError) error {
	if cause, ok := causes[reason]; ok {
		return fmt.Errorf("%w: %s", cause, loop.Message)
	}
	if len(findings) > 0 && !findings[0].Shadow {
		f := findings[0]
		loop.Detector, loop.Policy, loop.Fingerprint = f.Detector, f.Policy, f.Fingerprint
		loop.Window, loop.Cooldown = seconds(f.WindowSeconds), seconds(f.CooldownSeconds)
		loop.HitCount = cmp.Or(loop.HitCount, f.HitCount)
	}
	return &loop
}
