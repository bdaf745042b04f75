package gateway

import (
	"strings"
	"sync"

	"github.com/unloop/unloop/gateway/internal/blocks"
	"github.com/unloop/unloop/gateway/internal/identity"
	"github.com/unloop/unloop/gateway/internal/inforce"
	"github.com/unloop/unloop/gateway/internal/outcome"
	"github.com/unloop/unloop/gateway/internal/provider"
	"github.com/unloop/unloop/schemas/checkpb"
)

// basis is what the check of a request is made with, beside the request.
type basis struct {
	rules  *inforce.Rules
	hasher *identity.Hasher
}

// repeatRefusal is the template of a request's refusals, made when it repeats first.
type repeatRefusal struct {
	once     sync.Once
	template *outcome.Template
}

func (r *repeatRefusal) get(p provider.Provider, f *checkpb.Finding, caller string) *outcome.Template {
	r.once.Do(func() { r.template = outcome.NewTemplate(p, f, caller) })
	return r.template
}

// recall decides on an exact repetition of a request that was blocked a moment ago. It
// returns false for any other request.
func (g *Gateway) recall(x *exchange) bool {
	if !g.repeats.Any() || x.Body.Rest != nil {
		return false
	}
	x.digest = g.repeats.Digest(x.raw())
	check, refusal, decision := g.repeats.Decision(g.now(), x.digest, basis{x.rules, g.shared.Hasher()})
	if decision == nil {
		return false
	}
	x.Template = refusal.get(x.Provider, outcome.Strongest(decision), check.GetIdentity().GetCaller())
	x.Check, x.Identity, x.Decision = check, check.GetIdentity(), decision
	g.metrics.checks.WithLabelValues("local").Inc()
	return true
}

// remember keeps the check of a request if the strongest finding blocks what comes after.
func (g *Gateway) remember(x *exchange) {
	f := outcome.Strongest(x.Decision)
	if !blocks.Stands(f) || x.Uninspected != "" || x.Degraded != "" || x.Body.Rest != nil {
		return
	}
	if x.digest == (blocks.Digest{}) {
		x.digest = g.repeats.Digest(x.raw())
	}
	g.repeats.Remember(g.now(), x.digest, basis{x.rules, g.shared.Hasher()}, x.Check, &repeatRefusal{})
}

// raw is the request as it came.
func (x *exchange) raw() *blocks.Raw {
	return &blocks.Raw{
		Method: x.Method, Target: x.r.RequestURI, Host: x.Host, Header: x.Header, Body: x.Body.Bytes,
		Peer:   x.r.RemoteAddr[:max(strings.LastIndexByte(x.r.RemoteAddr, ':'), 0)],
		Client: x.Client.ID, Tenant: x.Client.Tenant,
	}
}
