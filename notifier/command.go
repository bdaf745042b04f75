package notifier

import (
	"context"

	"github.com/unloop/unloop/schemas/kit/service"
)

// Command is a notifier as a process of its own, beside a NATS cluster.
type Command struct {
	service.Member
	Config `group:"notifier"`
}

// Run runs the notifier until the context ends.
func (c *Command) Run(ctx context.Context, log service.Log) error {
	c.Page = c.PublicURL
	return c.Serve(ctx, "notifier", log, func(d service.Deps) (service.Service, error) { return New(c.Config, d) })
}
