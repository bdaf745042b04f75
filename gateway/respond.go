package gateway

import (
	"context"
	"errors"
	"net/http"

	"github.com/unloop/unloop/gateway/internal/decide/outcome"
	"github.com/unloop/unloop/gateway/internal/edge/respond"
	"github.com/unloop/unloop/gateway/internal/edge/wait"
	"github.com/unloop/unloop/gateway/internal/wire/provider"
)

// wait returns the outcome of a request after the wait that a throttle demands. The
// error says that the client left.
func (g *Gateway) wait(ctx context.Context, out outcome.Outcome) (outcome.Outcome, error) {
	err := g.waiting.Wait(ctx, out.Wait.Key, out.Wait.For)
	if errors.Is(err, wait.ErrCrowded) {
		return out.Crowded(), nil
	}
	return out, err
}

// abandon finishes a request whose client left while it waited.
func (g *Gateway) abandon(w http.ResponseWriter, c *exchange) {
	g.metrics.requests.WithLabelValues(c.account.Request.Provider.Name(), "abandoned").Inc()
	c.account.Status = respond.StatusClientLeft
	w.WriteHeader(c.account.Status)
	c.account.Uncount()
	c.account.GiveBack()
}

// respond answers a request that is not forwarded.
func (g *Gateway) respond(w http.ResponseWriter, c *exchange, out outcome.Outcome) {
	defer c.account.GiveBack()
	req := c.account.Request
	g.metrics.requests.WithLabelValues(req.Provider.Name(), out.Label).Inc()
	if out.Text != "" && req.Prompt == nil { // a repetition of a request that was read before
		read := *req
		read.Prompt = c.form
		req = &read
	}
	c.account.Status = g.writer.Outcome(w, c.account.HTTP, req, &out)
	if g.deps.Traces != nil { // a wait may have changed the outcome
		traceOutcome(c.account.HTTP.Context(), c, &out)
	}
	g.rejected(c, &out)
}

// refuse refuses a request in its provider's format.
func (g *Gateway) refuse(w http.ResponseWriter, c *exchange, refusal provider.Refusal) {
	c.account.Status = refusal.Status
	respond.Refuse(w, c.account.HTTP, c.account.Request.Provider, refusal)
}
