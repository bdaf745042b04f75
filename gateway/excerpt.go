package gateway

import (
	"net/http"

	"github.com/unloop/unloop/gateway/internal/decide/outcome"
	schema "github.com/unloop/unloop/schemas/excerpts"
)

// keepExcerpt keeps an excerpt of a looping request for the dashboard.
func (g *Gateway) keepExcerpt(e *exchange, out *outcome.Outcome) {
	id, now := out.Finding.GetLoopId(), g.now()
	if g.excerpts == nil || e.req.Prompt == nil || e.req.Run != nil || e.template != nil || !g.excerpts.Wants(id, now) {
		return
	}
	if p := e.rules.ByID(out.Finding.GetPolicy()); !g.cfg.Local && (p == nil || !p.IncludeExcerpt) {
		return
	}
	g.excerpts.Read(id, e.req, now)
}

// Paths implements service.Paths.
func (g *Gateway) Paths() map[string]http.Handler {
	if g.excerpts == nil {
		return nil
	}
	return map[string]http.Handler{"GET " + schema.Path: g.excerpts}
}
