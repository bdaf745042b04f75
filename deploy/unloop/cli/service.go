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

// member has the flags of a process that is one service of a cluster.
type member struct {
	service.Process
	service.Cluster
}

// run runs the service until the context ends.
func (m member) run(ctx context.Context, io streams, name string, make func(service.Deps) (service.Service, error)) error {
	return service.RunOne(ctx, name, m.Process, m.Cluster, m.Logger(io.err), make)
}

type gatewayCmd struct {
	member
	gateway.Config
}

// Run runs a gateway until the context ends.
func (c *gatewayCmd) Run(ctx context.Context, io streams) error {
	if err := c.CheckAccess(c.Process); err != nil {
		return err
	}
	c.Pages, c.ProofKey = c.Allowed, proofKey()
	return c.run(ctx, io, "gateway", func(d service.Deps) (service.Service, error) { return gateway.New(c.Config, d) })
}

type detectorCmd struct {
	member
	detector.Config
}

// Run runs a detector until the context ends.
func (c *detectorCmd) Run(ctx context.Context, io streams) error {
	return c.run(ctx, io, "detector", func(d service.Deps) (service.Service, error) { return detector.New(c.Config, d) })
}

type notifierCmd struct {
	member
	notifier.Config
}

// Run runs a notifier until the context ends.
func (c *notifierCmd) Run(ctx context.Context, io streams) error {
	return c.run(ctx, io, "notifier", func(d service.Deps) (service.Service, error) { return notifier.New(c.Config, d) })
}

type embedworkerCmd struct {
	member
	embedworker.Config
}

// Run runs an embedding worker until the context ends.
func (c *embedworkerCmd) Run(ctx context.Context, io streams) error {
	return c.run(ctx, io, "embedworker", func(d service.Deps) (service.Service, error) { return embedworker.New(c.Config, d) })
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
