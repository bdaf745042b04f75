package gateway

import (
	"context"
	"errors"
	"net/http"

	"github.com/unloop/unloop/gateway/internal/checkapi"
	"github.com/unloop/unloop/gateway/internal/request"
	"github.com/unloop/unloop/schemas/checkpb"
	"github.com/unloop/unloop/schemas/client"
)

// checks decides about described requests. It implements checkapi.Decider.
type checks struct{ *Gateway }

// exchange returns the exchange of a described request.
func (c checks) exchange(d *checkapi.Described) *exchange {
	x := c.newExchange(d.HTTP, d.Target)
	x.Request, x.Client = *d.Request, d.Client
	return x
}

// Check decides about a request, and counts it unless it is a peek.
func (c checks) Check(h http.Header, d *checkapi.Described) client.Decision {
	x := c.exchange(d)
	c.parse(x)
	c.identify(x)
	if c.override(x); x.operator.Stops() {
		return client.Decision{
			Action: checkpb.Action_ACTION_REJECT.Label(), Reason: client.ReasonKilled, Message: x.operator.Message(),
			RequestID: request.ID(x.Header), Findings: []client.Finding{},
		}
	}
	if x.operator.Exempt == "" {
		c.judge(x)
		c.memory.Answered(&x.Evidence) // the request itself goes past this gateway, or follows
	}
	c.decide(x)
	x.out.Headers.Put(h)
	out := x.out.Decision(request.ID(x.Header))
	if checkpb.ActionOf(out.Action).Stops() || errors.Is(x.r.Context().Err(), context.Canceled) {
		x.account.GiveBack()
	}
	return out
}

// CheckRun decides about a tool call.
func (c checks) CheckRun(h http.Header, d *checkapi.Described) client.ToolDecision {
	x := c.exchange(d)
	c.identify(x)
	if c.override(x); x.operator.Stops() {
		return client.ToolDecision{
			Action: client.ActionBlock, Reason: client.ReasonKilled, Message: x.operator.Message(), RequestID: request.ID(x.Header), Findings: []client.Finding{},
		}
	}
	if x.operator.Exempt == "" {
		c.judge(x)
	}
	c.decide(x)
	x.out.Headers.Put(h)
	return x.out.ToolDecision(request.ID(x.Header))
}
