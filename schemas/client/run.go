package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"sync/atomic"
	"time"
)

// timeout bounds how long a Run waits for a decision, and pause is how long a client's runs
// skip checks after the gateway was unreachable, so that tools stay fast while it is away.
const (
	timeout = 2 * time.Second
	pause   = 5 * time.Second
)

// Run is the calls of one agent, which are counted together. While the gateway is away, or
// refuses a check, calls pass. It may be used by many goroutines at once.
type Run struct {
	client  *Client
	call    ToolCall
	onError func(error)
}

// Run returns the calls of the agent that a ToolCall describes by its Session and, for the
// selectors of policies, its Tenant, Project, Model and Header. Errors of checks go to
// onError, which may be nil.
func (c *Client) Run(agent ToolCall, onError func(error)) *Run {
	if onError == nil {
		onError = func(error) {}
	}
	return &Run{client: c, call: agent, onError: onError}
}

// Header returns the headers for the run's requests to models, so that a gateway counts
// them with it.
func (r *Run) Header() http.Header {
	h := http.Header{}
	for name, value := range map[string]string{"X-Session-Id": r.call.Session, "X-Tenant-Id": r.call.Tenant, "X-Project-Id": r.call.Project} {
		if value != "" {
			h.Set(name, value)
		}
	}
	return h
}

// Before asks whether a call may be made. The arguments are encoded as JSON. Nil means that
// the call was not checked.
func (r *Run) Before(ctx context.Context, tool string, arguments any) *ToolDecision {
	return r.ask(ctx, tool, arguments, nil)
}

// After reports a call's result, which is encoded as JSON, or its error. Nil means that the
// report failed.
func (r *Run) After(ctx context.Context, tool string, arguments, result any, err error) *ToolDecision {
	return r.ask(ctx, tool, arguments, func(call *ToolCall) (encoding error) {
		if err != nil {
			failed := true
			result, call.IsError = err.Error(), &failed
		}
		call.Result, encoding = json.Marshal(result)
		return encoding
	})
}

func (r *Run) ask(ctx context.Context, tool string, arguments any, report func(*ToolCall) error) *ToolDecision {
	if time.Now().UnixNano() < r.client.until.Load() {
		return nil
	}
	call := r.call
	call.Tool = tool
	var err error
	if call.Arguments, err = json.Marshal(arguments); err == nil && report != nil {
		err = report(&call)
	}
	if err != nil {
		r.onError(fmt.Errorf("encode a call of %s: %w", tool, err))
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	decision, err := r.client.CheckTool(ctx, call)
	if decision != nil {
		return decision
	}
	var refused *Error
	if !errors.As(err, &refused) || refused.Status >= http.StatusInternalServerError {
		r.client.until.Store(time.Now().Add(pause).UnixNano())
	}
	r.onError(err)
	return nil
}

// Lease is one call that may be made. Done, Fail or Cancel settles it, and only the first of
// them has an effect. A lease that is never settled counts as a call with an unknown result,
// and is forgotten with its session. It may be used by many goroutines at once.
type Lease struct {
	// Decision is the answer to the check; nil if the call was not checked.
	Decision *ToolDecision

	run       *Run
	tool      string
	arguments any
	settled   atomic.Bool
}

// Lease asks whether a call may be made. The error of a call that is stopped is that of
// ToolDecision.Err.
func (r *Run) Lease(ctx context.Context, tool string, arguments any) (*Lease, error) {
	decision := r.Before(ctx, tool, arguments)
	if decision != nil && !decision.Allowed() {
		return nil, decision.Err()
	}
	return &Lease{Decision: decision, run: r, tool: tool, arguments: arguments}, nil
}

// Done reports the call's result.
func (l *Lease) Done(ctx context.Context, result any) {
	if l.settled.CompareAndSwap(false, true) {
		l.run.After(ctx, l.tool, l.arguments, result, nil)
	}
}

// Fail reports the error of a call that failed.
func (l *Lease) Fail(ctx context.Context, err error) {
	if l.settled.CompareAndSwap(false, true) {
		l.run.After(ctx, l.tool, l.arguments, nil, err)
	}
}

// Cancel reports that the call was not made, so that it does not count.
func (l *Lease) Cancel(ctx context.Context) {
	if l.settled.CompareAndSwap(false, true) && l.Decision != nil {
		l.run.ask(ctx, l.tool, l.arguments, func(call *ToolCall) error { call.Cancel = true; return nil })
	}
}

// Guard returns the tool with a lease for each call, which is settled with what the tool returns. A
// call that is stopped returns the error of ToolDecision.Err; its text is written for a model to
// read.
func Guard[A, R any](run *Run, name string, tool func(context.Context, A) (R, error)) func(context.Context, A) (R, error) {
	return func(ctx context.Context, arguments A) (R, error) {
		lease, stopped := run.Lease(ctx, name, arguments)
		if stopped != nil {
			var none R
			return none, stopped
		}
		result, err := tool(ctx, arguments)
		if err != nil {
			lease.Fail(ctx, err)
		} else {
			lease.Done(ctx, result)
		}
		return result, err
	}
}
