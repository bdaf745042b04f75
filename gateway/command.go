package gateway

import (
	"context"

	"github.com/unloop/unloop/gateway/internal/edge/serve"
	"github.com/unloop/unloop/schemas/kit/natskit"
	"github.com/unloop/unloop/schemas/kit/service"
)

// Command runs a gateway as a process of its own that connects to a NATS cluster.
type Command struct {
	service.Member
	Config      `group:"gateway"`
	Certificate serve.Certificate `embed:"" group:"gateway"`
}

// Run runs the gateway until the context ends.
func (c *Command) Run(ctx context.Context, log service.Log) error {
	if err := c.CheckAccess(c.Process); err != nil {
		return err
	}
	c.Pages, c.ProofKey, c.TLS, c.Local = c.Allowed, natskit.ProofKey(), c.Certificate, c.LocalAdmin()
	return c.Serve(ctx, "gateway", log, func(d service.Deps) (service.Service, error) {
		g, err := New(c.Config, d)
		if err == nil {
			g.ShowAt(c.PublicURL, false)
		}
		return g, err
	})
}
