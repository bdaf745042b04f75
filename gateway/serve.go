package gateway

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/unloop/unloop/gateway/internal/account"
	"github.com/unloop/unloop/gateway/internal/blocks"
	"github.com/unloop/unloop/gateway/internal/checkapi"
	"github.com/unloop/unloop/gateway/internal/checker"
	"github.com/unloop/unloop/gateway/internal/evidence"
	"github.com/unloop/unloop/gateway/internal/inforce"
	"github.com/unloop/unloop/gateway/internal/intake"
	"github.com/unloop/unloop/gateway/internal/outcome"
	"github.com/unloop/unloop/gateway/internal/override"
	"github.com/unloop/unloop/gateway/internal/provider"
	"github.com/unloop/unloop/gateway/internal/request"
	"github.com/unloop/unloop/gateway/internal/route"
)

// exchange is one request on its way through the stages of ServeHTTP.
type exchange struct {
	r *http.Request
	request.Request
	request.Subject
	// rules apply to the request, from its begin to its end.
	rules *inforce.Rules
	// operator is what operators decided about the request.
	operator override.Decision
	// Case is what is known when the outcome is decided, and out the outcome.
	outcome.Case
	out     outcome.Outcome
	account account.Account
	// digest is the request's in repeats, once it was asked for.
	digest blocks.Digest
}

// newExchange returns the exchange of a request whose body was not read yet.
func (g *Gateway) newExchange(r *http.Request, target route.Target) *exchange {
	x := exchangeOf(r, target)
	x.rules = g.bundles.Rules()
	return x
}

// exchangeOf is newExchange without the gateway's state.
func exchangeOf(r *http.Request, target route.Target) *exchange {
	return &exchange{r: r, Request: *request.New(r, target)}
}

// ServeHTTP takes a request through the stages: route, admit, read, identify, ask,
// act.
func (g *Gateway) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	defer g.bodies.Watch(w, r).Free()
	if g.turnAway(w, r) {
		return
	}
	if strings.HasPrefix(r.URL.Path, route.Reserved) {
		g.api.ServeHTTP(w, r)
		return
	}
	if r.URL.Path == checkapi.DecisionPath {
		g.answerDecision(w, r)
		return
	}
	x, ok := g.route(w, r)
	if !ok || !g.admit(w, x) || !g.read(w, x) {
		return
	}
	defer g.memory.Answered(&x.Evidence)
	if !g.recall(x) {
		g.parse(x)
		g.identify(x)
		if g.override(x); x.operator.Stops() {
			g.refuseStopped(w, x)
			return
		}
		if x.operator.Exempt == "" {
			g.judge(x)
			g.remember(x)
		}
	}
	g.decide(x)
	defer g.record(x)()
	if g.stop(w, x) || !g.delay(w, x) {
		return
	}
	g.forward(w, x)
}

// route finds the upstream; without one it answers.
func (g *Gateway) route(w http.ResponseWriter, r *http.Request) (*exchange, bool) {
	target, ok := g.table.Route(r)
	x := g.newExchange(r, target)
	if !ok {
		g.refuse(w, x, provider.Refusal{
			Status: http.StatusNotFound, Code: "unknown_path",
			Message: "no upstream for this path; name one with --upstream default=URL, or use /NAME/… of a configured upstream",
		})
		return nil, false
	}
	if target.Escapes {
		g.refuse(w, x, provider.Refusal{
			Status: http.StatusBadRequest, Code: "bad_path",
			Message: "the path's dot segments lead out of the upstream's own path",
		})
		return nil, false
	}
	return x, true
}

// admit finds out who the client is, or refuses it.
func (g *Gateway) admit(w http.ResponseWriter, x *exchange) bool {
	client, refusal := g.gate.Client(x.r, &x.Request)
	if refusal != nil {
		g.refuse(w, x, *refusal)
		return false
	}
	x.Client = client
	return true
}

func (g *Gateway) callerKey(x *exchange) string { return g.gate.CallerKey(x.r, &x.Request, x.Client) }

// read reads the body.
func (g *Gateway) read(w http.ResponseWriter, x *exchange) bool {
	var err error
	if x.Body, err = intake.Read(x.r, g.cfg.MaxInspectBytes); err != nil {
		g.refuse(w, x, intake.Refusal(err))
		return false
	}
	if x.Body.Rest != nil {
		g.passed.Follow(x.Body, g.callerKey(x))
	}
	return true
}

// override finds out what operators decided about the request.
func (g *Gateway) override(x *exchange) {
	x.operator = override.Decide(g.shared.Overrides(), x.rules.Set, &x.Request, &x.Subject, g.now())
}

// refuseStopped answers a request that an operator stopped. It is not counted.
func (g *Gateway) refuseStopped(w http.ResponseWriter, x *exchange) {
	g.metrics.requests.WithLabelValues(x.Provider.Name(), "kill").Inc()
	defer g.record(x)()
	g.refuse(w, x, x.operator.Refusal(http.StatusForbidden, x.rules.FairvisorHeaders, provider.Header{Name: "X-Should-Retry", Value: "false"}))
}

// parse reads the prompt of the request.
func (g *Gateway) parse(x *exchange) {
	intake.Parse(&x.Request, g.cfg.MaxInspectBytes, x.rules.Options(x.Path))
	if x.Uninspected != "" {
		g.metrics.uninspected.WithLabelValues(x.Uninspected).Inc()
	}
}

// judge asks the detectors about the request, if a policy counts it.
func (g *Gateway) judge(x *exchange) {
	if g.gather(x) {
		g.ask(x)
	}
}

// gather makes the evidence of a request. It returns false if there is nothing to
// ask.
func (g *Gateway) gather(x *exchange) bool {
	matched := evidence.Match(x.rules.Set, &x.Request, &x.Subject)
	g.precede(x, matched)
	in := evidence.Input{
		Request: &x.Request, Subject: &x.Subject, Policies: x.rules.Set, Matched: matched, Reading: x.rules.Reading,
		Memory: g.memory, Now: g.now(),
	}
	hasher := g.shared.Hasher()
	if hasher != nil && g.checker != nil && evidence.Telling(&x.Request) { // a replay does not count users
		in.Key = hasher.Caller(g.callerKey(x), "")
	}
	x.Evidence = evidence.Of(&in)
	for _, s := range x.Skipped {
		g.metrics.descriptorMissing.WithLabelValues(s.Policy, s.Rule.Name, s.Missing).Inc()
	}
	switch {
	case x.Check == nil:
		return false
	case hasher == nil:
		x.Check = nil
		x.degrade(g, "starting")
		return false
	}
	x.Check.RequestId = request.ID(x.Header)
	return true
}

func (g *Gateway) ask(x *exchange) {
	started := time.Now()
	decision, local, err := g.checker.Check(x.r.Context(), x.Check)
	x.Decision, x.account.Counted = decision, err == nil && !local
	g.metrics.checkSeconds.Observe(time.Since(started).Seconds())
	switch {
	case err == nil && local:
		g.metrics.checks.WithLabelValues("local").Inc()
	case err == nil:
		g.metrics.checks.WithLabelValues("decided").Inc()
	case errors.Is(err, context.Canceled):
		g.metrics.checks.WithLabelValues("abandoned").Inc()
	default:
		x.degrade(g, undecided(err))
	}
	if x.Uninspected != "" && x.Degraded == "" && x.FailClosed {
		x.degrade(g, "uninspected")
	}
}

// decide sets the outcome of a request that was checked or is exempt from checks, and
// counts the rules' verdicts.
func (g *Gateway) decide(x *exchange) {
	x.Exempt, x.Caller, x.Policies = x.operator.Exempt, x.Identity.GetCaller(), x.rules.Set
	x.Answerable = x.Prompt != nil && !x.Asked
	x.out = outcome.Of(&x.Case)
	g.open(x)
	for _, v := range x.out.Verdicts {
		mode := "enforce"
		if v.Wire.GetShadow() {
			mode = "shadow"
		}
		g.metrics.rules.WithLabelValues(v.Wire.GetPolicy(), v.Wire.GetRule(), mode, v.GetAction().Label()).Inc()
	}
}

// open opens the account of a request whose decision is known.
func (g *Gateway) open(x *exchange) {
	a := &x.account
	a.Books, a.HTTP, a.Request, a.Subject, a.Evidence, a.Decision = g.books, x.r, &x.Request, &x.Subject, &x.Evidence, x.Decision
}

// degrade notes that the request has no full decision. The first one of a
// spell is logged; the metric has them all.
func (x *exchange) degrade(g *Gateway, why string) {
	x.Degraded = why
	g.metrics.checks.WithLabelValues(why).Inc()
	g.degraded.note(g.log, g.now(), why)
}

// undecided returns why there is no decision, as metrics and headers name it.
func undecided(err error) string {
	for _, known := range []error{checker.ErrNoDetector, checker.ErrTimeout, checker.ErrOverloaded} {
		if errors.Is(err, known) {
			return known.Error()
		}
	}
	return checker.ErrDetector.Error()
}
