package cli

import (
	"context"
	"errors"
	"fmt"

	"github.com/unloop/unloop/schemas/kit/natskit"
	"github.com/unloop/unloop/schemas/kit/service"
)

type natsServeCmd struct {
	service.Process `group:"process"`
	NATSListen      string `name:"nats-listen" default:"127.0.0.1:4222" placeholder:"ADDR" help:"Address of the NATS server."`
	DataDir         string `placeholder:"DIR" help:"Storage folder; \"memory\" stores nothing on disk. Default: unloop in the user's state folder."`
}

// Run runs the embedded NATS server until the context ends.
func (c *natsServeCmd) Run(ctx context.Context, std streams) error {
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
	server, err := natskit.StartEmbedded(natskit.EmbeddedConfig{Listen: c.NATSListen, DataDir: dir, Announce: announceDir()}, c.Logger(std.err))
	if err != nil {
		return err
	}
	defer server.Stop()
	go server.Guard(ctx)
	service.TuneRuntime()
	admin, err := service.NewAdmin(c.Admin, c.Allowed, service.NewRegistry())
	if err != nil {
		return err
	}
	admin.Require(guard)
	fmt.Fprintf(std.out, "NATS with JetStream at %s, storing in %s\nClients need its token; for the nats CLI: unloop nats context\n", server.Addr(), dir)
	return admin.Run(ctx)
}
