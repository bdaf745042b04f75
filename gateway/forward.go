package gateway

import (
	"net/http"

	"go.opentelemetry.io/otel/codes"

	"github.com/unloop/unloop/gateway/internal/answerscan"
	"github.com/unloop/unloop/gateway/internal/forward"
	"github.com/unloop/unloop/gateway/internal/intake"
	"github.com/unloop/unloop/gateway/internal/outcome"
	"github.com/unloop/unloop/gateway/internal/respond"
)

// forward sends a request to its upstream and the answer to the client.
func (g *Gateway) forward(w http.ResponseWriter, c *checked, out outcome.Outcome) {
	a, x := &c.account, c.account.Request
	g.metrics.requests.WithLabelValues(x.Provider.Name(), out.Label).Inc()
	if hasher := g.shared.Hasher(); hasher != nil && x.Prompt != nil && x.Prompt.Background {
		a.Fetcher = hasher.Caller(g.gate.CallerKey(a.HTTP, x, c.from.Client), "")
	}
	body, headers := x.Body, out.Headers
	if c.Repair && x.Prompt != nil {
		repaired, changes := g.proxy.Repair(x, c.from.Identity.GetSession())
		if body = repaired; changes != "" {
			headers.Set("X-Loop-Repaired", changes)
		}
	}
	if text, position := out.Hint(g.now()); text != "" {
		body = g.proxy.Hint(x.Provider, body, text, position, out.Finding)
	}
	request := forward.Request{Target: x.Target, Body: body, Readable: a.Reads(), Stream: x.Prompt != nil && x.Prompt.Stream, Observer: forwarded{g, c, headers}}
	if g.deps.Traces != nil {
		request.Trace = g.startUpstream(c)
		defer endUpstream(c)
	}
	g.proxy.Forward(w, a.HTTP, request)
}

// forwarded observes the forwarding of a request.
type forwarded struct {
	g       *Gateway
	c       *checked
	headers outcome.Headers
}

// Answered sees the upstream's answer before the client does.
func (f forwarded) Answered(res *http.Response) {
	r := f.c.account.HTTP
	intake.Hurry(r)
	f.g.gate.OwnPages(r, res.Header)
	f.headers.Put(res.Header)
	f.c.account.Answer(res)
	f.c.form = nil
	f.c.account.Request = f.c.account.Request.Forwarded()
	if answerscan.IsStream(res.Header) { // it may stay open for minutes
		f.c.Check = f.c.Check.Reportable()
	}
	if f.c.upstream != nil {
		traceStatus(f.c.upstream, res.StatusCode, res.StatusCode >= http.StatusBadRequest)
	}
}

// Failed answers the client of a request that the upstream did not answer.
func (f forwarded) Failed(w http.ResponseWriter, err error) {
	g, a := f.g, &f.c.account
	a.Uncount()
	if f.c.upstream != nil {
		f.c.upstream.SetStatus(codes.Error, "no answer")
	}
	switch {
	case intake.Broken(a.HTTP):
		a.GiveBack()
		g.refuse(w, f.c, intake.Refusal(err))
	case a.HTTP.Context().Err() != nil:
		a.Status = respond.StatusClientLeft
		w.WriteHeader(a.Status)
	default:
		f.headers.Put(w.Header())
		a.GiveBack()
		g.refuse(w, f.c, g.proxy.Unreachable(a.Request.Target, err))
	}
}

// Broken takes back the count of a request after its answer broke off.
func (f forwarded) Broken() {
	f.c.account.Uncount()
	if f.c.upstream != nil {
		f.c.upstream.SetStatus(codes.Error, "the answer broke off")
	}
}
