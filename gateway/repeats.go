package gateway

import (
	"net/http"
	"slices"

	"github.com/unloop/unloop/gateway/internal/ask/ask"
	"github.com/unloop/unloop/gateway/internal/ask/standing"
	"github.com/unloop/unloop/gateway/internal/decide/clientprofile"
	"github.com/unloop/unloop/gateway/internal/decide/evidence"
	"github.com/unloop/unloop/gateway/internal/decide/outcome"
	"github.com/unloop/unloop/gateway/internal/edge/stages"
	"github.com/unloop/unloop/gateway/internal/memory/identity"
	"github.com/unloop/unloop/gateway/internal/rules/policystore"
	"github.com/unloop/unloop/gateway/internal/wire/provider"
	"github.com/unloop/unloop/gateway/internal/wire/request"
)

// basis is all that the check of a request depends on except the request: the policies and
// the hasher of names.
type basis struct {
	rules  *policystore.Rules
	hasher *identity.Hasher
}

// rejected is what is kept with the check of a blocked request.
type rejected struct {
	template outcome.Template
	form     *provider.Prompt
	client   *clientprofile.Client
	agent    bool
}

// recall returns the decision on a request that repeats one, byte for byte, that was blocked
// a moment ago. For other requests it returns nil, and the digest if it computed one.
func (g *Gateway) recall(r *http.Request, req *request.Request, who request.Principal, rules *policystore.Rules) (digest standing.Digest, _ *exchange) {
	if !g.repeats.Any() || req.Body.Rest != nil {
		return digest, nil
	}
	digest = g.repeats.Digest(stages.Raw(r, req, who))
	check, before, decision := g.repeats.Decision(g.now(), digest, basis{rules, g.shared.Hasher()})
	if decision == nil {
		return digest, nil
	}
	g.asker.Local()
	read := *req
	read.Prompt = before.form
	return digest, &exchange{
		http: r, req: &read, rules: rules, from: request.Subject{Client: who, Identity: check.GetIdentity()},
		evidence: evidence.Evidence{Check: check}, answer: ask.Answer{Decision: decision},
		template: &before.template, client: before.client, agent: before.agent,
	}
}

// remember keeps the check of a request if a finding blocks further ones. digest is the
// request's; zero if it was not computed.
func (g *Gateway) remember(e *exchange, digest standing.Digest) {
	req := e.req
	if !slices.ContainsFunc(e.answer.Decision.GetFindings(), standing.Stands) || req.Uninspected != "" || e.answer.Degraded != "" || req.Body.Rest != nil {
		return
	}
	if digest == (standing.Digest{}) {
		digest = g.repeats.Digest(stages.Raw(e.http, req, e.from.Client))
	}
	g.repeats.Remember(g.now(), digest, basis{e.rules, g.shared.Hasher()}, e.evidence.Check, &rejected{
		form: req.Prompt.Form(), client: clientprofile.Detect(req.Header.Get), agent: e.agent,
	})
}
