package gateway

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"time"

	"github.com/unloop/unloop/gateway/internal/account"
	"github.com/unloop/unloop/gateway/internal/auth"
	"github.com/unloop/unloop/gateway/internal/checker"
	"github.com/unloop/unloop/gateway/internal/identity"
	"github.com/unloop/unloop/gateway/internal/inforce"
	"github.com/unloop/unloop/gateway/internal/outcome"
	"github.com/unloop/unloop/gateway/internal/override"
	"github.com/unloop/unloop/gateway/internal/request"
)

// checked is a request with the decision of the operators and the detectors.
type checked struct {
	outcome.Case
	rules    *inforce.Rules
	from     request.Subject
	operator override.Decision
	account  account.Account
}

// newChecked returns a request whose decision is not known yet.
func (g *Gateway) newChecked(r *http.Request, x *request.Request, who auth.Principal, rules *inforce.Rules) *checked {
	c := &checked{rules: rules, from: request.Subject{Client: who}}
	c.account = account.Account{Books: g.books, HTTP: r, Request: x, Subject: &c.from, Evidence: &c.Evidence}
	return c
}

// check resolves who sent a request, and asks the detectors about it unless an operator
// stopped or exempted it.
func (g *Gateway) check(r *http.Request, x *request.Request, who auth.Principal, rules *inforce.Rules) *checked {
	c, hasher := g.newChecked(r, x, who, rules), g.shared.Hasher()
	if x.Run == nil {
		g.parse(x, rules)
	}
	if x.Uninspected != "" {
		g.metrics.uninspected.WithLabelValues(x.Uninspected).Inc()
	}
	c.from = g.resolve(r, x, rules, who, hasher)
	c.operator = override.Decide(g.shared.Overrides(), rules.Set, x, &c.from, g.now())
	if c.operator.Operator == "" {
		g.gather(c, hasher)
	}
	return c
}

// gather makes the evidence of a request, and asks the detectors if there is any.
func (g *Gateway) gather(c *checked, hasher *identity.Hasher) {
	r, x := c.account.HTTP, c.account.Request
	var key func() string
	if hasher != nil {
		key = func() string { return hasher.Caller(g.gate.CallerKey(r, x, c.from.Client), "") }
	}
	c.Evidence, c.account.CallsWatched = g.evidence(r.Context(), x, &c.from, c.rules, key)
	for _, s := range c.Skipped {
		g.metrics.descriptorMissing.WithLabelValues(s.Policy, s.Rule.Name, s.Missing).Inc()
	}
	switch {
	case c.Check == nil:
	case hasher == nil:
		c.Check = nil
		g.degrade(c, "starting")
	default:
		g.ask(c)
	}
}

// ask gets the detectors' decision.
func (g *Gateway) ask(c *checked) {
	started := time.Now()
	decision, local, err := g.checker.Check(c.account.HTTP.Context(), c.Check)
	g.metrics.checkSeconds.Observe(time.Since(started).Seconds())
	c.Decision, c.account.Decision, c.account.Counted = decision, decision, err == nil && !local
	switch {
	case err == nil && local:
		g.metrics.checks.WithLabelValues("local").Inc()
	case err == nil:
		g.metrics.checks.WithLabelValues("decided").Inc()
	case errors.Is(err, context.Canceled):
		g.metrics.checks.WithLabelValues("abandoned").Inc()
	default:
		g.degrade(c, undecided(err))
	}
	if c.account.Request.Uninspected != "" && c.Degraded == "" && c.FailClosed {
		g.degrade(c, "uninspected")
	}
}

// degrade notes that a request has no full decision. The metric counts all such
// requests; the first one of a spell is logged.
func (g *Gateway) degrade(c *checked, why string) {
	c.Degraded = why
	g.metrics.checks.WithLabelValues(why).Inc()
	if g.metrics.spells.begins(why, g.now()) {
		g.deps.Log.Warn("requests are not checked; the failure mode decides", "reason", why)
	}
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

// decide returns the outcome of a request, and counts the rules' verdicts.
func (g *Gateway) decide(c *checked) outcome.Outcome {
	x := c.account.Request
	c.Exempt, c.Caller, c.Policies = c.operator.Exempt, c.from.Identity.GetCaller(), c.rules.Set
	c.Answerable = x.Prompt != nil && !x.Asked
	out := outcome.Of(&c.Case)
	for _, v := range out.Verdicts {
		mode := "enforce"
		if v.Wire.GetShadow() {
			mode = "shadow"
		}
		g.metrics.rules.WithLabelValues(v.Wire.GetPolicy(), v.Wire.GetRule(), mode, v.GetAction().Label()).Inc()
	}
	return out
}

// spells tells the first of many like events from those that follow it.
type spells struct {
	mu   sync.Mutex
	last map[string]time.Time
}

// spell is how long an event must not have happened to begin a new spell.
const spell = time.Minute

// begins notes an event, and reports whether it begins a spell.
func (s *spells) begins(event string, now time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	last, seen := s.last[event]
	if s.last == nil {
		s.last = map[string]time.Time{}
	}
	s.last[event] = now
	return !seen || now.Sub(last) > spell
}
