package client

import (
	"context"
	"encoding/json"
	"net/http"
)

// ActionBlock forbids a tool's call. The other actions on calls are ActionAllow,
// ActionWarn and ActionBreak; after a break no call may be made until an operator
// releases the loop or the session has been idle for long enough.
const ActionBlock = "block"

// ToolCall is the body of POST /unloop/v1/check from a tool runner. Before a call it asks
// whether the call may be made; afterwards, with the Result, it reports whether the call
// brought anything new. Without results every repetition counts.
type ToolCall struct {
	// Session names the agent whose calls are counted together; required.
	Session string `json:"session"`
	Tool    string `json:"tool,omitempty"`
	// Arguments are those of the call, as JSON; a string is parsed as JSON.
	Arguments json.RawMessage `json:"arguments,omitempty"`
	// Result is what the tool answered, a string or any other JSON; absent before
	// the call is made.
	Result json.RawMessage `json:"result,omitempty"`
	// IsError reports whether the result is an error; with nil the policy's patterns
	// decide.
	IsError *bool `json:"is_error,omitempty"`
	// Cancel takes back the newest check of the call that has no result: it was not made, and
	// counts no longer.
	Cancel bool `json:"cancel,omitempty"`
	// Peek asks what would happen, and counts nothing.
	Peek bool `json:"peek,omitempty"`
	// Explain, without a Tool, asks for the state of the session.
	Explain bool `json:"explain,omitempty"`

	// Path, Model and Tenant are for the selectors of policies; an empty path means that
	// of Chat Completions.
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
	// Reason is one of the Reason constants; empty without an action.
	Reason string `json:"reason"`
	// Message is a text for the model, in place of a blocked call's result.
	Message string     `json:"message"`
	Counts  ToolCounts `json:"counts"`
	// BackoffSeconds is how long to wait before the next call of a poll.
	BackoffSeconds int    `json:"backoff_seconds"`
	LoopID         string `json:"loop_id"`
	// Degraded says why there is no full decision; see Decision.
	Degraded  string    `json:"degraded"`
	RequestID string    `json:"request_id"`
	Findings  []Finding `json:"findings"`
}

// ToolCounts are the counts of a call and of its session.
type ToolCounts struct {
	// Streak counts the call's occurrences with the same result without other work in
	// between, Repeats all of its occurrences with the same result.
	Streak  int `json:"streak"`
	Repeats int `json:"repeats"`
	// WarnThreshold and BlockThreshold apply to the call.
	WarnThreshold  int `json:"warn_threshold"`
	BlockThreshold int `json:"block_threshold"`
	// Poll marks a call that checks whether something has finished.
	Poll bool `json:"poll"`
	// Calls counts the calls since the session began or was released, Total all calls,
	// Unique the different ones, Blocked those that were blocked.
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

// Allowed reports whether the call may be made.
func (d *ToolDecision) Allowed() bool { return d.Action != ActionBlock && d.Action != ActionBreak }

// Err returns nil if the call may be made, and else an error as Decision.Err.
func (d *ToolDecision) Err() error {
	if d.Allowed() {
		return nil
	}
	hits := d.Counts.Streak
	if len(d.Findings) > 0 && !d.Findings[0].Shadow {
		hits = d.Findings[0].HitCount
	}
	return stopped(d.Reason, d.Findings, LoopDetectedError{Message: d.Message, Action: d.Action, HitCount: hits, LoopID: d.LoopID})
}
