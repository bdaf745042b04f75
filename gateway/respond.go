package gateway

import (
	"context"
	"errors"
	"net/http"

	"github.com/unloop/unloop/gateway/internal/decide/outcome"
	"github.com/unloop/unloop/gateway/internal/edge/respond"
	"github.com/unloop/unloop/gateway/internal/edge/spans"
	"github.com/unloop/unloop/gateway/internal/edge/wait"
	"github.com/unloop/unloop/gateway/internal/memory/account"
	"github.com/unloop/unloop/gateway/internal/wire/provider"
)

// wait delays a throttled request and returns its outcome. It fails if the client left.
func (g *Gateway) wait(ctx context.Context, out outcome.Outcome) (outcome.Outcome, error) {
	err := g.waiting.Wait(ctx, out.Wait.Key, out.Wait.For)
	if errors.Is(err, wait.ErrCrowded) {
		return out.Crowded(), nil
	}
	return out, err
}

// abandon ends a request whose client left.
func (g *Gateway) abandon(w http.ResponseWriter, a *account.Account) {
	g.count(a.Request, "abandoned")
	a.Status = respond.StatusClientLeft
	w.WriteHeader(a.Status)
	a.Uncount()
	a.GiveBack()
}

// respond answers a request that is not forwarded.
func (g *Gateway) respond(w http.ResponseWriter, a *account.Account, out outcome.Outcome) {
	defer a.GiveBack()
	g.count(a.Request, out.Label)
	a.Status = g.writer.Outcome(w, a.HTTP, a.Request, &out)
	spans.Outcome(a.HTTP.Context(), a.Request, &a.Subject, &out) // a wait may have changed it
	g.rejected(a, &out)
}

// refuse refuses a request in its provider's format.
func (g *Gateway) refuse(w http.ResponseWriter, a *account.Account, refusal provider.Refusal) {
	a.Status = refusal.Status
	respond.Refuse(w, a.HTTP, a.Request.Provider, refusal)
}
