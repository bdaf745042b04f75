package gateway

import (
	"context"
	"errors"
	"net/http"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/unloop/unloop/gateway/internal/decide/outcome"
	"github.com/unloop/unloop/gateway/internal/edge/auth"
	"github.com/unloop/unloop/gateway/internal/edge/intake"
	"github.com/unloop/unloop/gateway/internal/memory/account"
	"github.com/unloop/unloop/gateway/internal/memory/identity"
	"github.com/unloop/unloop/gateway/internal/rules/override"
	"github.com/unloop/unloop/gateway/internal/rules/policystore"
	"github.com/unloop/unloop/gateway/internal/share/fair"
	"github.com/unloop/unloop/gateway/internal/share/turns"
	"github.com/unloop/unloop/gateway/internal/wire/provider"
	"github.com/unloop/unloop/gateway/internal/wire/request"
	"github.com/unloop/unloop/schemas/checkpb"
)

// exchange is a request with the decision of the operators and the detectors.
type exchange struct {
	outcome.Case
	rules    *policystore.Rules
	from     request.Subject
	operator override.Decision
	account  account.Account
	// form is the part of the prompt that an answer in the model's place depends on; nil
	// for no prompt.
	form *provider.Prompt
	// upstream is the span of the upstream's answer; nil for none.
	upstream trace.Span
	// arrived is when the request began to come in.
	arrived time.Time
}

// newExchange returns a request whose decision is not known yet.
func (g *Gateway) newExchange(r *http.Request, req *request.Request, who auth.Principal, rules *policystore.Rules) *exchange {
	c := &exchange{rules: rules, from: request.Subject{Client: who}}
	c.account = account.Account{Books: g.books, HTTP: r, Request: req, Subject: &c.from, Evidence: &c.Evidence}
	return c
}

// check waits for the turn of a request, resolves who sent it, and asks the detectors
// about it unless an operator stopped or exempted it.
func (g *Gateway) check(r *http.Request, req *request.Request, who auth.Principal, rules *policystore.Rules) *exchange {
	req, turn, err := g.open(r, req, rules)
	defer turn.Give()
	if err != nil {
		c := g.newExchange(r, req, who, rules)
		c.Overloaded = errors.Is(err, turns.ErrBusy) || errors.Is(err, intake.ErrNoRoom)
		return c
	}
	c, hasher := g.newExchange(r, req, who, rules), g.shared.Hasher()
	if req.Uninspected != "" {
		g.metrics.uninspected.WithLabelValues(req.Uninspected).Inc()
	}
	c.from = g.resolve(r, req, rules, who, hasher)
	c.operator = override.Decide(g.shared.Overrides(), rules.Set, req, &c.from, g.now())
	c.Sender.Agent = req.Prompt != nil && req.Run == nil && req.ShowsTools()
	if c.operator.Operator == "" {
		g.gather(c, hasher, turn)
	} else {
		c.forget()
	}
	return c
}

// forget drops the history of the prompt, which may take many times the memory of the
// body, and returns the request without it.
func (c *exchange) forget() *request.Request {
	req := c.account.Request.WithoutHistory()
	c.account.Request, c.form = req, req.Prompt
	return req
}

// open parses a request in its turn, and returns the turn. A request that waits for memory
// to be decoded in waits without its turn.
func (g *Gateway) open(r *http.Request, req *request.Request, rules *policystore.Rules) (*request.Request, *turns.Turn, error) {
	upload := intake.Held(r)
	for {
		turn, err := g.turns.Take(r.Context(), req.Caller, large(req))
		if err != nil || req.Run != nil {
			return req, &turn, err
		}
		read, err := g.parse(r.Context(), req, rules, upload.Try)
		if err == nil {
			return read, &turn, nil
		}
		turn.Give()
		if err := upload.Again(); err != nil {
			return req, &turn, err
		}
	}
}

// large reports whether reading a request takes a processor for long.
func large(req *request.Request) bool {
	return len(req.Body.Bytes) > turns.Large || req.Header.Get("Content-Encoding") != ""
}

// gather makes the evidence of a request, which ends the reading of its body, and asks the
// detectors if there is any.
func (g *Gateway) gather(c *exchange, hasher *identity.Hasher, turn *turns.Turn) {
	r, req := c.account.HTTP, c.account.Request
	var key func() string
	if hasher != nil {
		key = func() string { return hasher.Caller(g.gate.CallerKey(r, req, c.from.Client), "") }
	}
	c.Evidence = g.evidence(r.Context(), req, &c.from, c.rules, key)
	req = c.forget()
	turn.Read()
	for _, s := range c.Skipped {
		g.metrics.descriptorMissing.WithLabelValues(s.Policy, s.Rule.Name, s.Missing).Inc()
	}
	switch {
	case c.Check == nil:
	case hasher == nil:
		c.Check = nil
		c.Degraded = g.asker.Degraded("starting")
	default:
		answer := g.asker.Ask(fair.WithCaller(r.Context(), req.Caller), c.Check)
		c.Decision, c.Degraded, c.Overloaded = answer.Decision, answer.Degraded, answer.Overloaded
		c.account.Decision, c.account.Counted = answer.Decision, answer.Counted
		if req.Uninspected != "" && c.Degraded == "" && c.FailClosed {
			c.Degraded = g.asker.Degraded("uninspected")
		}
	}
}

// decide returns the outcome of a request, and counts the rules' verdicts.
func (g *Gateway) decide(c *exchange) outcome.Outcome {
	c.Exempt, c.Caller, c.Policies = c.operator.Exempt, c.from.Identity.GetCaller(), c.rules.Set
	g.sender(c)
	g.addOwed(c)
	out := outcome.Of(&c.Case)
	g.owe(c, &out)
	for _, v := range out.Verdicts {
		mode := "enforce"
		if v.Wire.GetShadow() {
			mode = "shadow"
		}
		g.metrics.rules.WithLabelValues(v.Wire.GetPolicy(), v.Wire.GetRule(), mode, v.GetAction().Label()).Inc()
	}
	if g.deps.Traces != nil {
		traceOutcome(c.account.HTTP.Context(), c, &out)
	}
	return out
}

// Check asks the detectors about a request that did not come over HTTP: in batches with
// those that did, and from memory while a block stands. Its errors say why there is no
// decision.
func (g *Gateway) Check(ctx context.Context, check *checkpb.Check) (*checkpb.Decision, error) {
	decision, _, err := g.checker.Check(ctx, check)
	return decision, err
}
