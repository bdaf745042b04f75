package gateway

import (
	"net/http"
	"strings"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"

	"github.com/unloop/unloop/gateway/internal/edge/admit"
	"github.com/unloop/unloop/gateway/internal/edge/beside"
	"github.com/unloop/unloop/gateway/internal/edge/checkapi"
	"github.com/unloop/unloop/gateway/internal/edge/intake"
	"github.com/unloop/unloop/gateway/internal/edge/respond"
	"github.com/unloop/unloop/gateway/internal/edge/rpc"
	"github.com/unloop/unloop/gateway/internal/edge/spans"
	"github.com/unloop/unloop/gateway/internal/wire/provider"
	"github.com/unloop/unloop/gateway/internal/wire/request"
	"github.com/unloop/unloop/gateway/internal/wire/route"
	"github.com/unloop/unloop/schemas/client"
)

// ServeHTTP answers requests to Unloop's own API, requests of other gateways for a decision,
// and requests to upstreams.
func (g *Gateway) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	g.traced(w, r, g.serve)
}

// serve is ServeHTTP inside the request's span.
func (g *Gateway) serve(w http.ResponseWriter, r *http.Request) {
	defer g.bodies.Watch(w, r, request.CallerOf(r)).Free()
	switch {
	case g.refusePage(w, r):
	case g.stages.Gate.Pages.Answer(w, r): // a preflight
	case strings.HasPrefix(r.URL.Path, beside.Path):
		g.beside.ServeHTTP(w, r)
	case strings.HasPrefix(r.URL.Path, route.Reserved):
		g.api.ServeHTTP(w, r)
	case r.URL.Path == checkapi.DecisionPath:
		g.serveDecision(w, r)
	default:
		g.answer(w, r, nil)
	}
}

// answer takes a request through its stages: admit, read, then resolve, override, evidence
// and ask (check), outcome (decide), wait, and respond or forward, which keep the account.
// With an onward the request goes on through another proxy instead of to an upstream.
func (g *Gateway) answer(w http.ResponseWriter, r *http.Request, onward rpc.Onward) {
	arrived := g.now()
	req, who, refusal := g.receive(r, onward != nil)
	if refusal != nil {
		spans.Answer(r.Context(), refusal.Status)
		respond.Refuse(w, r, req.Provider, *refusal)
		return
	}
	rules := g.stages.Policies.Rules()
	digest, e := g.recall(r, req, who, rules)
	if e == nil {
		e = g.check(r, req, who, rules)
		g.remember(e, digest)
	}
	e.arrived = arrived
	a, waiting := g.openAccount(e), e.evidence.Waiting
	defer func() { spans.Answer(r.Context(), a.Status) }()
	defer g.stages.Memory.Answered(&waiting)
	if e.operator.Stops() {
		g.count(req, "kill")
		trace.SpanFromContext(r.Context()).SetAttributes(attribute.String("unloop.outcome", "kill"))
		defer g.record(e, a, nil)()
		g.refuse(w, a, e.operator.Refusal(http.StatusForbidden, rules.FairvisorHeaders, admit.NoRetry))
		return
	}
	out := g.decide(e)
	g.keepExcerpt(e, &out)
	g.owe(a, &out)
	defer g.record(e, a, out.Finding)()
	out, err := g.wait(r.Context(), out)
	switch {
	case err != nil, out.Forwards() && r.Context().Err() != nil:
		g.abandon(w, a)
	case out.Forwards():
		g.forward(w, a, out, onward)
	default:
		g.respond(w, a, out)
	}
}

// receive finds the upstream and the client of a request and reads its body. A request that
// continues elsewhere needs no upstream here.
func (g *Gateway) receive(r *http.Request, elsewhere bool) (*request.Request, request.Principal, *provider.Refusal) {
	target, known := g.stages.Table.Route(r)
	req := request.New(r, target)
	if refusal := admit.Target(r, target, known); refusal != nil && !elsewhere {
		return req, request.Principal{}, refusal
	}
	who, refusal := g.admit(r, req)
	if refusal == nil {
		refusal = admit.WebSocket(r, target.Format)
	}
	return req, who, refusal
}

// admit authenticates the client and reads the body of its request.
func (g *Gateway) admit(r *http.Request, req *request.Request) (request.Principal, *provider.Refusal) {
	who, refusal := g.stages.Gate.Client(r, req)
	if refusal != nil {
		return who, refusal
	}
	if err := g.stages.Read(r, req); err != nil {
		refused := intake.Refusal(err)
		return who, &refused
	}
	if req.Body.Rest != nil {
		g.bodies.Follow(req.Body, g.stages.Gate.CallerKey(r, req, who))
	}
	return who, nil
}

// refusePage refuses a request that a web page may have sent, in the format of its path, and
// reports whether it did.
func (g *Gateway) refusePage(w http.ResponseWriter, r *http.Request) bool {
	refusal := g.stages.Gate.Page(r)
	switch {
	case refusal == nil:
		return false
	case strings.HasPrefix(r.URL.Path, route.Reserved):
		w.Header().Set(admit.NoRetry.Name, admit.NoRetry.Value)
		respond.Error(w, &client.Error{Status: refusal.Status, Code: refusal.Code, Message: refusal.Message})
	default:
		target, _ := g.stages.Table.Route(r)
		respond.Refuse(w, r, request.New(r, target).Provider, *refusal)
	}
	return true
}
