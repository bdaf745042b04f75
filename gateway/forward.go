package gateway

import (
	"encoding/hex"
	"net/http"

	"github.com/unloop/unloop/gateway/internal/forward"
	"github.com/unloop/unloop/gateway/internal/intake"
	"github.com/unloop/unloop/gateway/internal/request"
	"github.com/unloop/unloop/gateway/internal/respond"
)

// forward sends the request to its upstream and the answer to the client.
func (g *Gateway) forward(w http.ResponseWriter, x *exchange) {
	g.metrics.requests.WithLabelValues(x.Provider.Name(), x.out.Label).Inc()
	if x.Prompt != nil && x.Prompt.Background && g.shared.Hasher() != nil {
		x.account.Fetcher = g.shared.Hasher().Caller(g.callerKey(x), "")
	}
	g.proxy.Forward(w, x.r, forward.Request{
		Target: x.Target, Body: g.hinted(x, g.repaired(x)), Readable: x.account.Reads(), Observer: forwarded{g, x},
	})
}

// repaired returns the body with the history of tool calls repaired, if a policy wants
// that.
func (g *Gateway) repaired(x *exchange) *request.Body {
	if !x.Repair || x.Prompt == nil {
		return x.Body
	}
	body, report, err := forward.Repaired(x.Provider, x.Body)
	if err != nil {
		g.log.Warn("history could not be repaired", "format", x.Provider.Name(), "error", err)
	}
	if report.Changed() {
		x.out.Headers.Set("X-Loop-Repaired", report.String())
		report.Each(func(kind string, n int) { g.metrics.repairs.WithLabelValues(kind).Add(float64(n)) })
		g.log.Info("history repaired", "format", x.Provider.Name(), "session", x.Identity.GetSession(), "changes", report.String())
	}
	return body
}

// hinted returns the body with the outcome's hint. A body that can't take it is returned as
// it is.
func (g *Gateway) hinted(x *exchange, body *request.Body) *request.Body {
	text, position := x.out.Hint(g.now())
	if text == "" {
		return body
	}
	body, err := forward.Hinted(x.Provider, body, text, position)
	if err != nil {
		f := x.out.Finding
		g.metrics.hints.WithLabelValues("no-place").Inc()
		g.log.Warn("request could not take a hint", "format", x.Provider.Name(), "policy", f.GetPolicy(), "fingerprint", hex.EncodeToString(f.GetFingerprint()[:8]), "error", err)
		return body
	}
	g.metrics.hints.WithLabelValues("given").Inc()
	return body
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

// Broken takes back what a request was counted whose answer broke off.
func (f forwarded) Broken() { f.x.account.Uncount() }
