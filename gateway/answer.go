package gateway

import (
	"net/http"

	"github.com/unloop/unloop/gateway/internal/provider"
	"github.com/unloop/unloop/gateway/internal/respond"
)

// stop answers a request that is not to be forwarded.
func (g *Gateway) stop(w http.ResponseWriter, x *exchange) bool {
	if x.out.Forwards() {
		return false
	}
	defer x.account.GiveBack()
	g.metrics.requests.WithLabelValues(x.Provider.Name(), x.out.Label).Inc()
	x.account.Status = g.writer.Outcome(w, x.r, &x.Request, &x.out)
	return true
}

// refuse refuses a request that has no outcome.
func (g *Gateway) refuse(w http.ResponseWriter, x *exchange, r provider.Refusal) {
	x.account.Status = r.Status
	respond.Refuse(w, x.r, x.Provider, r)
}
