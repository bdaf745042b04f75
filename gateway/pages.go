package gateway

import (
	"net/http"
	"strings"

	"github.com/unloop/unloop/gateway/internal/admit"
	"github.com/unloop/unloop/gateway/internal/respond"
	"github.com/unloop/unloop/gateway/internal/route"
	"github.com/unloop/unloop/schemas/client"
)

// turnAway answers what a web page may have sent, in the format's own shape, and
// the preflights of pages that are allowed.
func (g *Gateway) turnAway(w http.ResponseWriter, r *http.Request) bool {
	fault := g.pages.Check(r)
	if fault == nil {
		return g.pages.Answer(w, r)
	}
	g.metrics.foreign.WithLabelValues(fault.Code).Inc()
	if strings.HasPrefix(r.URL.Path, route.Reserved) {
		w.Header().Set("X-Should-Retry", "false")
		respond.Error(w, &client.Error{Status: http.StatusForbidden, Code: fault.Code, Message: fault.Message})
		return true
	}
	target, _ := g.table.Route(r)
	x := g.newExchange(r, target)
	g.refuse(w, x, admit.Page(fault))
	return true
}

// allowPage drops what an upstream says about the pages that may read its
// answer, where the gateway has said it already.
func (g *Gateway) allowPage(x *exchange, answer http.Header) {
	if !g.pages.Allows(x.Header.Get("Origin")) {
		return
	}
	for name := range answer {
		if strings.HasPrefix(name, "Access-Control-") {
			answer.Del(name)
		}
	}
}
