package gateway

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/unloop/unloop/gateway/internal/edge/admit"
	"github.com/unloop/unloop/gateway/internal/edge/checkapi"
	"github.com/unloop/unloop/gateway/internal/edge/respond"
	"github.com/unloop/unloop/gateway/internal/wire/provider"
	"github.com/unloop/unloop/gateway/internal/wire/request"
	"github.com/unloop/unloop/schemas/checkpb"
	"github.com/unloop/unloop/schemas/client"
)

// checks implements checkapi.Decider.
type checks struct{ *Gateway }

// Turn waits until a text of n bytes may be read: callers with large texts take turns.
func (g checks) Turn(r *http.Request, n int) (give func(), fault *client.Error) {
	slot, err := g.limiter.TakeRead(r.Context(), request.CallerOf(r), n)
	if err != nil {
		return nil, &client.Error{Status: http.StatusServiceUnavailable, Code: "too_many_bodies", Message: err.Error()}
	}
	return slot.Give, nil
}

// Check decides about a request, and counts it unless it is a peek.
func (g checks) Check(h http.Header, d *checkapi.Described) client.Decision {
	e := g.asked(d)
	if e.operator.Stops() {
		return client.Decision{
			Action: checkpb.Action_ACTION_REJECT.Label(), Reason: client.ReasonKilled, Message: e.operator.Message(),
			RequestID: request.ID(d.Header), Findings: []client.Finding{},
		}
	}
	out := g.decide(e)
	out.ReportHeaders().Put(h)
	decision := out.Decision(request.ID(d.Header))
	if checkpb.ActionOf(decision.Action).Stops() || errors.Is(d.HTTP.Context().Err(), context.Canceled) {
		g.openAccount(e).GiveBack()
	}
	return decision
}

// CheckRun decides about a tool call.
func (g checks) CheckRun(h http.Header, d *checkapi.Described) client.ToolDecision {
	e := g.asked(d)
	if e.operator.Stops() {
		return client.ToolDecision{
			Action: client.ActionBlock, Reason: client.ReasonKilled, Message: e.operator.Message(), RequestID: request.ID(d.Header), Findings: []client.Finding{},
		}
	}
	out := g.decide(e)
	out.ReportHeaders().Put(h)
	return out.ToolDecision(request.ID(d.Header))
}

// asked checks a request that this gateway does not forward, so that it will not see the
// answer.
func (g *Gateway) asked(d *checkapi.Described) *exchange {
	e := g.check(d.HTTP, d.Request, d.Client, g.stages.Policies.Rules())
	g.stages.Memory.Answered(&e.evidence.Waiting)
	return e
}

// stoppedRetry is the Retry-After, in seconds, for requests that an operator stopped. It is
// Fairvisor's value; waiting does not help.
const stoppedRetry = "3600"

// serveDecision tells another gateway whether it may forward a request: 200, perhaps after a
// throttle's delay, 429, or 503 if a policy fails closed. The request counts.
func (g *Gateway) serveDecision(w http.ResponseWriter, r *http.Request) {
	if original := checkapi.Asked(w, r); original != nil {
		g.decideOn(w, original)
	}
}

// decideOn is serveDecision for the request that a decision is asked for.
func (g *Gateway) decideOn(w http.ResponseWriter, original *http.Request) {
	target, _ := g.stages.Table.Route(original) // other gateways have upstreams of their own
	req := request.New(original, target)
	req.DecisionOnly = true
	who, refusal := g.admit(original, req)
	if refusal != nil {
		respond.Refuse(w, original, req.Provider, *refusal)
		return
	}
	e := g.asked(&checkapi.Described{HTTP: original, Request: req, Client: who})
	a := g.openAccount(e)
	if e.operator.Stops() {
		again := admit.NoRetry
		if e.rules.FairvisorHeaders {
			again = provider.Header{Name: "Retry-After", Value: stoppedRetry}
		}
		g.refuse(w, a, e.operator.Refusal(http.StatusTooManyRequests, e.rules.FairvisorHeaders, again))
		return
	}
	out := g.decide(e)
	if at, has := original.Context().Deadline(); has && out.Wait.Key != "" && at.Before(time.Now().Add(out.Wait.For)) {
		out = out.Crowded() // the caller does not wait so long
	}
	out, err := g.wait(original.Context(), out)
	switch {
	case err != nil:
		g.abandon(w, a)
	case !out.Forwards():
		g.respond(w, a, out)
	default:
		out.Headers.Put(w.Header())
		w.Header().Set("Content-Length", "0")
		w.WriteHeader(http.StatusOK)
	}
}
