package gateway

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"time"

	"github.com/unloop/unloop/gateway/internal/ask/ask"
	"github.com/unloop/unloop/gateway/internal/decide/clientprofile"
	"github.com/unloop/unloop/gateway/internal/decide/evidence"
	"github.com/unloop/unloop/gateway/internal/decide/outcome"
	"github.com/unloop/unloop/gateway/internal/edge/intake"
	"github.com/unloop/unloop/gateway/internal/edge/spans"
	"github.com/unloop/unloop/gateway/internal/edge/stages"
	"github.com/unloop/unloop/gateway/internal/memory/account"
	"github.com/unloop/unloop/gateway/internal/memory/identity"
	"github.com/unloop/unloop/gateway/internal/rules/override"
	"github.com/unloop/unloop/gateway/internal/rules/policystore"
	"github.com/unloop/unloop/gateway/internal/share/fair"
	"github.com/unloop/unloop/gateway/internal/share/limiter"
	"github.com/unloop/unloop/gateway/internal/wire/request"
	"github.com/unloop/unloop/gateway/internal/wire/usage"
	"github.com/unloop/unloop/schemas/checkpb"
)

// exchange is a request with the results of its stages up to the outcome.
type exchange struct {
	http     *http.Request
	req      *request.Request
	rules    *policystore.Rules
	from     request.Subject
	operator override.Decision
	evidence evidence.Evidence
	answer   ask.Answer
	// template and client are those of the first request if this one repeats a blocked
	// request byte for byte; nil otherwise.
	template *outcome.Template
	client   *clientprofile.Client
	// agent is set if the request offers tools.
	agent bool
	// arrived is the time at which the request began to arrive.
	arrived time.Time
}

// check waits for a slot for a request, resolves who sent it, and asks the detectors
// about it unless an operator stopped or exempted it.
func (g *Gateway) check(r *http.Request, req *request.Request, who request.Principal, rules *policystore.Rules) *exchange {
	e := &exchange{http: r, rules: rules, from: request.Subject{Client: who}}
	req, slot, err := g.open(r, req, rules, who)
	give := sync.OnceFunc(slot.Give)
	defer give()
	if err != nil {
		e.req = req
		e.answer.Overloaded = errors.Is(err, limiter.ErrBusy) || errors.Is(err, intake.ErrNoRoom)
		return e
	}
	if req.Uninspected != "" {
		g.metrics.uninspected.WithLabelValues(req.Uninspected).Inc()
	}
	hasher := g.shared.Hasher()
	e.from = g.stages.Resolve(r, req, rules, who, hasher)
	e.operator = override.Decide(g.shared.Overrides(), rules.Set, req, &e.from, g.now())
	e.agent = req.Prompt != nil && req.Run == nil && req.ShowsTools()
	if e.operator.Operator == "" {
		e.evidence = g.gather(r, req, &e.from, rules, hasher)
	}
	e.req = req.WithoutHistory() // which may take many times the memory of the body
	slot.Read()
	if e.evidence.Check != nil && hasher == nil {
		e.evidence.Check = nil
		e.answer.Degraded = g.asker.Degraded("starting")
		return e
	}
	e.answer = g.ask(e, give)
	return e
}

// open takes a slot, parses the request, and returns both. While the request waits for memory
// to be decoded, it gives its slot back.
func (g *Gateway) open(r *http.Request, req *request.Request, rules *policystore.Rules, who request.Principal) (*request.Request, *limiter.Slot, error) {
	upload, prefixes := intake.Held(r), g.stages.Scope(r, req, rules, who)
	for {
		slot, err := g.limiter.Take(r.Context(), req.Caller, stages.Large(req))
		if err != nil || req.Run != nil {
			return req, &slot, err
		}
		read, err := g.stages.Parse(r.Context(), req, rules, prefixes, upload.Try)
		if err == nil {
			return read, &slot, nil
		}
		slot.Give()
		if err := upload.Again(); err != nil {
			return req, &slot, err
		}
	}
}

// gather returns the evidence of a request.
func (g *Gateway) gather(r *http.Request, req *request.Request, from *request.Subject, rules *policystore.Rules, hasher *identity.Hasher) evidence.Evidence {
	var key func() string
	if hasher != nil {
		key = func() string { return hasher.Caller(g.stages.Gate.CallerKey(r, req, from.Client), "") }
	}
	found := g.stages.Evidence(r.Context(), req, from, rules, key)
	for _, s := range found.Skipped {
		g.metrics.descriptorMissing.WithLabelValues(s.Policy, s.Rule.Name, s.Missing).Inc()
	}
	return found
}

// ask asks the detectors about a request that has a check. A check that waits longer than the
// timeout uses no processor, so its slot goes to another request.
func (g *Gateway) ask(e *exchange, give func()) ask.Answer {
	if e.evidence.Check == nil {
		return ask.Answer{}
	}
	defer time.AfterFunc(g.cfg.CheckTimeout, give).Stop()
	answer := g.asker.Ask(fair.WithCaller(e.http.Context(), e.req.Caller), e.evidence.Check)
	if e.req.Uninspected != "" && answer.Degraded == "" && e.evidence.FailClosed {
		answer.Degraded = g.asker.Degraded("uninspected")
	}
	return answer
}

// decide returns the outcome of a request and counts the verdicts of rules.
func (g *Gateway) decide(e *exchange) outcome.Outcome {
	out := outcome.Decide(g.outcomeCase(e))
	for _, v := range out.Verdicts {
		mode := "enforce"
		if v.Wire.GetShadow() {
			mode = "shadow"
		}
		g.metrics.rules.WithLabelValues(v.Wire.GetPolicy(), v.Wire.GetRule(), mode, v.GetAction().Label()).Inc()
	}
	spans.Outcome(e.http.Context(), e.req, &e.from, &out)
	return out
}

// openAccount opens the account of a request that was checked.
func (g *Gateway) openAccount(e *exchange) *account.Account {
	a := &account.Account{
		Deps: g.accounts, HTTP: e.http, Request: e.req, Subject: e.from, Evidence: e.evidence, Decision: e.answer.Decision, Counted: e.answer.Counted,
	}
	caller, model := e.from.Identity.GetCaller(), e.req.Model()
	if g.stages.Spent != nil && a.Evidence.Check != nil && e.req.AsksModel() && g.stages.Spent.Wants(caller, model, g.now()) {
		estimate := int(e.req.Body.PromptTokens())
		a.Used = func(u usage.Usage) { g.stages.Spent.Keep(caller, model, estimate, u) }
	}
	return a
}

// Check asks the detectors about a request that did not come over HTTP, or answers from
// memory while a block is in force. An error is the reason for which there is no decision.
func (g *Gateway) Check(ctx context.Context, check *checkpb.Check) (*checkpb.Decision, error) {
	decision, _, err := g.checker.Check(ctx, check)
	return decision, err
}
