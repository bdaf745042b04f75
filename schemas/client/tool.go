package client

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
)

// ActionBlock says that a tool's call must not be made. The other actions on
// calls are ActionAllow, ActionWarn and ActionBreak, after which no call may be
// made until an operator releases the loop or the session was idle for long
// enough.
const ActionBlock = "block"

// ToolCall is what a tool runner asks about, as POST /unloop/v1/check takes it:
// first whether a call may be made, then, with its Result, whether it brought
// anything new. Without results every repetition counts.
type ToolCall struct {
	// Session names the agent whose calls are counted together; needed.
	Session string `json:"session"`
	Tool    string `json:"tool,omitempty"`
	// Arguments are the call's, as JSON; a string is taken for the JSON in it.
	Arguments json.RawMessage `json:"arguments,omitempty"`
	// Result is what the tool answered, a string or any other JSON; absent before
	// the call is made.
	Result json.RawMessage `json:"result,omitempty"`
	// IsError says whether the result is an error; nil leaves it to the policy's
	// patterns.
	IsError *bool `json:"is_error,omitempty"`
	// Peek asks what would happen, and counts nothing.
	Peek bool `json:"peek,omitempty"`
	// Explain, without a Tool, asks what is known of the session.
	Explain bool `json:"explain,omitempty"`

	// Path, Model and Tenant are what the selectors of policies look at; the path
	// is that of Chat Completions if empty.
	Path      string `json:"path,omitempty"`
	Model     string `json:"model,omitempty"`
	User      string `json:"user,omitempty"`
	Tenant    string `json:"tenant,omitempty"`
	Project   string `json:"project,omitempty"`
	RequestID string `json:"request_id,omitempty"`

	// Header is sent with the check; see Request.
	Header http.Header `json:"-"`
}

// ToolDecision answers a ToolCall.
type ToolDecision struct {
	// Action is "allow", "warn", "block" or "break".
	Action string `json:"action"`
	// Reason is one of the reasons of Decision; empty if there is nothing to say.
	Reason string `json:"reason"`
	// Message is for the model to read, in place of a blocked call's result.
	Message string     `json:"message"`
	Counts  ToolCounts `json:"counts"`
	// BackoffSeconds is how long to wait before the next call, for polls.
	BackoffSeconds int    `json:"backoff_seconds"`
	LoopID         string `json:"loop_id"`
	// Degraded says why there is no full decision; see Decision.
	Degraded  string    `json:"degraded"`
	RequestID string    `json:"request_id"`
	Findings  []Finding `json:"findings"`
}

// ToolCounts say how often the call was made and what is known of its session.
type ToolCounts struct {
	// Streak are the call's occurrences with the same result, without other work
	// in between; Repeats are all with the same result.
	Streak  int `json:"streak"`
	Repeats int `json:"repeats"`
	// WarnThreshold and BlockThreshold are those of the call.
	WarnThreshold  int `json:"warn_threshold"`
	BlockThreshold int `json:"block_threshold"`
	// Poll says that the call looks whether something is done yet.
	Poll bool `json:"poll"`
	// Calls since the session began or was released, Total in all, Unique
	// different ones, Blocked ones.
	Calls   int `json:"calls"`
	Total   int `json:"total"`
	Unique  int `json:"unique"`
	Blocked int `json:"blocked"`
	// MostRepeated is the tool of the call that was made most often.
	MostRepeated      string `json:"most_repeated"`
	MostRepeatedCount int    `json:"most_repeated_count"`
}

// CheckTool asks about a tool's call. Errors are those of Check.
func (c *Client) CheckTool(ctx context.Context, call ToolCall) (*ToolDecision, error) {
	var d ToolDecision
	if err := c.ask(ctx, call, call.Header, &d); err != nil {
		return nil, err
	}
	return &d, d.Err()
}

func (d *ToolDecision) action() string { return d.Action }

// Allowed says whether the call may be made.
func (d *ToolDecision) Allowed() bool { return d.Action != ActionBlock && d.Action != ActionBreak }

// Err is nil if the call may be made, and else as Decision.Err.
func (d *ToolDecision) Err() error {
	switch {
	case d.Allowed():
		return nil
	case d.Reason == ReasonUnchecked:
		return fmt.Errorf("%w: %s", ErrUnchecked, d.Message)
	case d.Reason == ReasonKilled:
		return fmt.Errorf("%w: %s", ErrKilled, d.Message)
	}
	e := &LoopDetectedError{Message: d.Message, Action: d.Action, HitCount: d.Counts.Streak, LoopID: d.LoopID}
	if len(d.Findings) > 0 {
		f := d.Findings[0]
		e.Detector, e.Policy, e.Fingerprint = f.Detector, f.Policy, f.Fingerprint
		e.HitCount, e.Window = f.HitCount, seconds(f.WindowSeconds)
	}
	return e
}
