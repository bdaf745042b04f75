package gateway

import (
	"net/http"
	"strings"
	"sync"

	"github.com/unloop/unloop/gateway/internal/auth"
	"github.com/unloop/unloop/gateway/internal/blocks"
	"github.com/unloop/unloop/gateway/internal/identity"
	"github.com/unloop/unloop/gateway/internal/inforce"
	"github.com/unloop/unloop/gateway/internal/outcome"
	"github.com/unloop/unloop/gateway/internal/provider"
	"github.com/unloop/unloop/gateway/internal/request"
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

// recall returns the decision on an exact repetition of a request that was blocked a
// moment ago. For any other request it returns nil, and the digest if it was made.
func (g *Gateway) recall(r *http.Request, x *request.Request, who auth.Principal, rules *inforce.Rules) (digest blocks.Digest, _ *checked) {
	if !g.repeats.Any() || x.Body.Rest != nil {
		return digest, nil
	}
	digest = g.repeats.Digest(raw(r, x, who))
	check, refusal, decision := g.repeats.Decision(g.now(), digest, basis{rules, g.shared.Hasher()})
	if decision == nil {
		return digest, nil
	}
	g.metrics.checks.WithLabelValues("local").Inc()
	c := g.newChecked(r, x, who, rules)
	c.Template = refusal.get(x.Provider, outcome.Strongest(decision), check.GetIdentity().GetCaller())
	c.Check, c.from.Identity, c.Decision, c.account.Decision = check, check.GetIdentity(), decision, decision
	return digest, c
}

// remember keeps the check of a request if its strongest finding blocks those that
// follow. digest is the request's, or zero.
func (g *Gateway) remember(c *checked, digest blocks.Digest) {
	x := c.account.Request
	if !blocks.Stands(outcome.Strongest(c.Decision)) || x.Uninspected != "" || c.Degraded != "" || x.Body.Rest != nil {
		return
	}
	if digest == (blocks.Digest{}) {
		digest = g.repeats.Digest(raw(c.account.HTTP, x, c.from.Client))
	}
	g.repeats.Remember(g.now(), digest, basis{c.rules, g.shared.Hasher()}, c.Check, &repeatRefusal{})
}

// raw returns the request as it came.
func raw(r *http.Request, x *request.Request, who auth.Principal) *blocks.Raw {
	return &blocks.Raw{
		Method: x.Method, Target: r.RequestURI, Host: x.Host, Header: x.Header, Body: x.Body.Bytes,
		Peer:   r.RemoteAddr[:max(strings.LastIndexByte(r.RemoteAddr, ':'), 0)],
		Client: who.ID, Tenant: who.Tenant,
	}
}
