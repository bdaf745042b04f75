package cli

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"

	"github.com/unloop/unloop/deploy/unloop/system"
	"github.com/unloop/unloop/detector"
	"github.com/unloop/unloop/embedworker"
	"github.com/unloop/unloop/gateway"
	"github.com/unloop/unloop/notifier"
	"github.com/unloop/unloop/schemas/kit/natskit"
	"github.com/unloop/unloop/schemas/kit/service"
)

type upCmd struct {
	gateway.Config  `group:"gateway"`
	NATSListen      string             `name:"nats-listen" group:"nats" default:"127.0.0.1:4222" placeholder:"ADDR" help:"Address of the embedded NATS server."`
	DataDir         string             `group:"nats" short:"d" placeholder:"DIR" help:"Where the embedded server stores; \"memory\" keeps nothing. Default: unloop in the user's state folder."`
	NATS            string             `name:"nats" group:"nats" placeholder:"URL" help:"Use NATS servers elsewhere instead of the embedded one."`
	Replicas        int                `group:"nats" default:"1" help:"Replicas of streams that do not exist yet, on servers elsewhere."`
	Detector        detector.Config    `embed:"" group:"detector"`
	Notifier        notifier.Config    `embed:"" group:"notifier"`
	Embedworker     embedworker.Config `embed:"" group:"embedworker"`
	service.Process `group:"process"`
}

// system returns the configuration of all services by the flags.
func (c upCmd) system() (system.Config, error) {
	dir, err := dataDir(c.DataDir)
	faults := []error{err, c.CheckAccess(c.Process), c.CheckAdmin()}
	if c.NATS == "" {
		faults = append(faults, c.CheckLoopback("--nats-listen", c.NATSListen))
	}
	c.Pages, c.ProofKey = c.Allowed, natskit.ProofKey()
	return system.Config{
		Admin: c.Admin, AdminAuth: c.AdminAuth, NATS: c.NATS, Replicas: c.Replicas,
		Embedded: natskit.EmbeddedConfig{Listen: c.NATSListen, DataDir: dir, Announce: announceDir()},
		Gateway:  c.Config, Detector: c.Detector, Notifier: c.Notifier, Embedworker: c.Embedworker,
	}, errors.Join(faults...)
}

// dataDir returns the folder in which the embedded server stores: by default in the
// user's state folder (XDG Base Directory Specification).
func dataDir(flag string) (string, error) {
	switch flag {
	case natskit.InMemory:
		return flag, nil
	case "":
		return natskit.StateDir()
	}
	return filepath.Abs(flag)
}

// announceDir returns the folder in which other commands of the user find the NATS
// token, or "" if there is none.
func announceDir() string {
	dir, _ := natskit.RuntimeDir() // without one the token is not announced
	return dir
}

// Run runs everything until the context ends.
func (c *upCmd) Run(ctx context.Context, io streams) error {
	cfg, err := c.system()
	if err != nil {
		return err
	}
	s, err := system.New(cfg, c.Logger(io.err))
	if err != nil {
		return err
	}
	return runSystem(ctx, s, func(context.Context) error {
		fmt.Fprintf(io.out, "Unloop is ready. Point your agent's base URL at it:\n\n"+
			"  OpenAI      %s/v1\n  Anthropic   %s\n  Gemini      %s\n\n"+
			"Events: unloop events   Open loops: unloop loops   Health and metrics: %s\n",
			s.URL(), s.URL(), s.URL(), s.AdminURL())
		return nil
	})
}

// runSystem runs a system and calls then once it is ready. An error of then stops
// the system.
func runSystem(ctx context.Context, s *system.System, then func(context.Context) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	ready := make(chan error, 1)
	go func() {
		err := s.Wait(ctx)
		if err == nil {
			err = then(ctx)
		}
		if err != nil {
			cancel(err)
		}
		ready <- err
	}()
	err := s.Run(ctx)
	cancel(err)
	if notReady := <-ready; !errors.Is(notReady, context.Canceled) {
		err = errors.Join(err, notReady)
	}
	return err
}
