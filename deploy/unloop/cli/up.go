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

// whole are the flags of a process that runs everything.
type whole struct {
	service.Process
	NATSListen string `name:"nats-listen" default:"127.0.0.1:4222" placeholder:"ADDR" help:"Address of the embedded NATS server."`
	DataDir    string `placeholder:"DIR" help:"Where the embedded server stores; \"memory\" keeps nothing. Default: unloop in the user's state folder."`
	NATS       string `name:"nats" placeholder:"URL" help:"Use NATS servers elsewhere instead of the embedded one."`
	Replicas   int    `default:"1" help:"Replicas of streams that do not exist yet, on servers elsewhere."`
	gateway.Config
	Detector    detector.Config    `embed:""`
	Notifier    notifier.Config    `embed:""`
	Embedworker embedworker.Config `embed:""`
}

func (w whole) system() (system.Config, error) {
	dir, err := dataDir(w.DataDir)
	faults := []error{err, w.CheckAccess(w.Process), w.CheckAdmin()}
	if w.NATS == "" {
		faults = append(faults, w.CheckLoopback("--nats-listen", w.NATSListen))
	}
	w.Pages, w.ProofKey = w.Allowed, proofKey()
	return system.Config{
		Admin: w.Admin, AdminAuth: w.AdminAuth, NATS: w.NATS, Replicas: w.Replicas,
		Embedded: natskit.EmbeddedConfig{Listen: w.NATSListen, DataDir: dir, Announce: announceDir()},
		Gateway:  w.Config, Detector: w.Detector, Notifier: w.Notifier, Embedworker: w.Embedworker,
	}, errors.Join(faults...)
}

// dataDir is where the embedded server stores: by default in the user's state
// folder (XDG Base Directory Specification).
func dataDir(flag string) (string, error) {
	if flag == natskit.InMemory {
		return flag, nil
	}
	if flag != "" {
		return filepath.Abs(flag)
	}
	return natskit.StateDir()
}

// announceDir is where other commands of the user find the NATS token; "" if
// there is no such place.
func announceDir() string {
	dir, err := natskit.RuntimeDir()
	if err != nil {
		return ""
	}
	return dir
}

type upCmd struct{ whole }

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

// runSystem runs a system and, once it is ready, calls then; an error of then
// stops the system.
func runSystem(ctx context.Context, s *system.System, then func(context.Context) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	ready := make(chan error, 1)
	go func() {
		err := s.Wait(ctx)
		if err == nil {
			err = then(ctx)
		}
		ready <- err
	}()
	select {
	case err := <-done:
		cancel(err)
		return errors.Join(err, ignoreCanceled(<-ready))
	case err := <-ready:
		if err != nil {
			cancel(err)
			return errors.Join(ignoreCanceled(err), <-done)
		}
		return <-done
	}
}

func ignoreCanceled(err error) error {
	if errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}
