package detector

import (
	"context"

	"github.com/unloop/unloop/schemas/kit/service"
)

// Command is a detector as a process of its own, beside a NATS cluster.
type Command struct {
	service.Member
}

// Run runs the detector until the context ends.
func (c *Command) Run(ctx context.Context, log service.Log) error {
	return c.Serve(ctx, "detector", log, func(d service.Deps) (service.Service, error) { return New(d) })
}
