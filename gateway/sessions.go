package gateway

import (
	"slices"

	"github.com/unloop/unloop/gateway/internal/bundle"
	"github.com/unloop/unloop/gateway/internal/descriptor"
	"github.com/unloop/unloop/gateway/internal/resolve"
)

// identify finds out who sent the request.
func (g *Gateway) identify(x *exchange) {
	x.Subject = g.resolver.Subject(x.r, &x.Request, resolve.Sender{Client: x.Client, Key: g.callerKey(x), Hasher: g.shared.Hasher()}, g.now())
	x.Descriptors = x.rules.Descriptors.Values(descriptor.Subject{HTTP: x.r, Identity: x.Identity, Model: x.Model()})
}

// precede completes the prompt by the calls that the provider keeps, where a policy
// evaluates tool calls.
func (g *Gateway) precede(x *exchange, matched []*bundle.Policy) {
	x.account.CallsWatched = x.Prompt != nil && slices.ContainsFunc(matched, func(p *bundle.Policy) bool { return p.Tool != nil || p.Cycle != nil || p.Prompt != nil })
	if x.account.CallsWatched {
		x.Prompt, x.Open = g.resolver.Calls(x.r.Context(), &x.Request, x.Identity.GetCaller(), x.rules.Options(x.Path))
	}
}
