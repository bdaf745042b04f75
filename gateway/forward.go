package gateway

import (
	"net/http"

	"github.com/unloop/unloop/gateway/internal/forward"
	"github.com/unloop/unloop/gateway/internal/intake"
	"github.com/unloop/unloop/gateway/internal/respond"
)

// forward sends the request to its upstream and the answer to the client.
func (g *Gateway) forward(w http.ResponseWriter, x *exchange) {
	g.metrics.requests.WithLabelValues(x.Provider.Name(), x.out.Label).Inc()
	if x.Prompt != nil && x.Prompt.Background && g.shared.Hasher() != nil {
		x.account.Fetcher = g.shared.Hasher().Caller(g.callerKey(x), "")
	}
	body, changes := x.Body, ""
	if x.Repair && x.Prompt != nil {
		if body, changes = g.proxy.Repair(&x.Request, x.Identity.GetSession()); changes != "" {
			x.out.Headers.Set("X-Loop-Repaired", changes)
		}
	}
	if text, position := x.out.Hint(g.now()); text != "" {
		body = g.proxy.Hint(x.Provider, body, text, position, x.out.Finding)
	}
	g.proxy.Forward(w, x.r, forward.Request{Target: x.Target, Body: body, Readable: x.account.Reads(), Observer: forwarded{g, x}})
}

// forwarded observes the forwarding of a request.
type forwarded struct {
	g *Gateway
	x *exchange
}

// Answered sees the upstream's answer before the client does.
func (f forwarded) Answered(res *http.Response) {
	g, x := f.g, f.x
	intake.Hurry(x.r)
	g.allowPage(x, res.Header)
	x.out.Headers.Put(res.Header)
	x.account.Answer(res)
}

// Failed answers the client of a request that the upstream did not answer.
func (f forwarded) Failed(w http.ResponseWriter, err error) {
	g, x := f.g, f.x
	x.account.Uncount()
	switch {
	case intake.Broken(x.r):
		x.account.GiveBack()
		g.refuse(w, x, intake.Refusal(err))
	case x.r.Context().Err() != nil:
		x.account.Status = respond.StatusClientLeft
		w.WriteHeader(x.account.Status)
	default:
		x.out.Headers.Put(w.Header())
		x.account.GiveBack()
		g.refuse(w, x, g.proxy.Unreachable(x.Target, err))
	}
}

// Broken takes back the count of a request after its answer broke off.
func (f forwarded) Broken() { f.x.account.Uncount() }
