package embedworker

import (
	"context"

	"github.com/unloop/unloop/schemas/kit/service"
)

// Command is an embedding worker as a process of its own, beside a NATS cluster.
type Command struct {
	service.Member
	Config `group:"embedworker"`
}

// Run runs the embedding worker until the context ends.
func (c *Command) Run(ctx context.Context, log service.Log) error {
	return c.Serve(ctx, "embedworker", log, func(d service.Deps) (service.Service, error) { return New(c.Config, d) })
}
