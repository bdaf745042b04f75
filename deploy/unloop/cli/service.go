package cli

import (
	"context"
	"errors"
	"fmt"

	"github.com/unloop/unloop/detector"
	"github.com/unloop/unloop/embedworker"
	"github.com/unloop/unloop/gateway"
	"github.com/unloop/unloop/notifier"
	"github.com/unloop/unloop/schemas/kit/natskit"
	"github.com/unloop/unloop/schemas/kit/service"
)

type gatewayCmd struct {
	service.Process
	service.Cluster
	gateway.Config
}

// Run runs a gateway until the context ends.
func (c *gatewayCmd) Run(ctx context.Context, io streams) error {
	if err := c.CheckAccess(c.Process); err != nil {
		return err
	}
	c.Pages, c.ProofKey = c.Allowed, proofKey()
	return service.RunOne(ctx, "gateway", c.Process, c.Cluster, c.Logger(io.err),
		func(d service.Deps) (service.Service, error) { return gateway.New(c.Config, d) })
}

type detectorCmd struct {
	service.Process
	service.Cluster
	detector.Config
}

// Run runs a detector until the context ends.
func (c *detectorCmd) Run(ctx context.Context, io streams) error {
	return service.RunOne(ctx, "detector", c.Process, c.Cluster, c.Logger(io.err),
		func(d service.Deps) (service.Service, error) { return detector.New(c.Config, d) })
}

type notifierCmd struct {
	service.Process
	service.Cluster
	notifier.Config
}

// Run runs a notifier until the context ends.
func (c *notifierCmd) Run(ctx context.Context, io streams) error {
	return service.RunOne(ctx, "notifier", c.Process, c.Cluster, c.Logger(io.err),
		func(d service.Deps) (service.Service, error) { return notifier.New(c.Config, d) })
}

type embedworkerCmd struct {
	service.Process
	service.Cluster
	embedworker.Config
}

// Run runs an embedding worker until the context ends.
func (c *embedworkerCmd) Run(ctx context.Context, io streams) error {
	return service.RunOne(ctx, "embedworker", c.Process, c.Cluster, c.Logger(io.err),
		func(d service.Deps) (service.Service, error) { return embedworker.New(c.Config, d) })
}

type natsCmd struct {
	service.Process
	NATSListen string `name:"nats-listen" default:"127.0.0.1:4222" placeholder:"ADDR" help:"Address of the NATS server."`
	DataDir    string `placeholder:"DIR" help:"Where the server stores; \"memory\" keeps nothing. Default: unloop in the user's state folder."`
}

// Run runs the embedded NATS server until the context ends.
func (c *natsCmd) Run(ctx context.Context, io streams) error {
	if err := c.CheckLoopback("--nats-listen", c.NATSListen); err != nil {
		return err
	}
	guard, err := service.AdminGuard(c.AdminAuth)
	if err := errors.Join(c.CheckAdmin(), err); err != nil {
		return err
	}
	dir, err := dataDir(c.DataDir)
	if err != nil {
		return err
	}
	server, err := natskit.StartEmbedded(natskit.EmbeddedConfig{Listen: c.NATSListen, DataDir: dir, Announce: announceDir()}, c.Logger(io.err))
	if err != nil {
		return err
	}
	defer server.Stop()
	go server.Guard(ctx)
	service.Headroom()
	admin, err := service.NewAdmin(c.Admin, c.Allowed, service.NewRegistry())
	if err != nil {
		return err
	}
	admin.Require(guard)
	fmt.Fprintf(io.out, "NATS with JetStream at %s, storing in %s\nClients need its token; for the nats CLI: unloop nats context\n", server.Addr(), dir)
	return admin.Run(ctx)
}
