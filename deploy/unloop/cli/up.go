package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/url"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/unloop/unloop/deploy/unloop/system"
	"github.com/unloop/unloop/embedworker"
	"github.com/unloop/unloop/gateway"
	"github.com/unloop/unloop/notifier"
	"github.com/unloop/unloop/schemas/kit/natskit"
	"github.com/unloop/unloop/schemas/kit/service"
	"github.com/unloop/unloop/schemas/kit/tracing"
)

type upCmd struct {
	gateway.Config   `group:"gateway"`
	NATSListen       string `name:"nats-listen" group:"nats" default:"127.0.0.1:4222" placeholder:"ADDR" help:"Address of the embedded NATS server."`
	DataDir          string `group:"nats" short:"d" placeholder:"DIR" help:"Storage folder of the embedded server; \"memory\" stores nothing on disk. Default: unloop in the user's state folder."`
	NATS             string `name:"nats" group:"nats" placeholder:"URL" help:"NATS servers to use instead of the embedded one."`
	natskit.Settings `group:"nats"`
	Replicas         int `group:"nats" default:"1" help:"Replicas of newly created streams, with --nats."`
	service.Sealed   `group:"nats"`
	Notifier         notifier.Config    `embed:"" group:"notifier"`
	Embedworker      embedworker.Config `embed:"" group:"embedworker"`
	service.Process  `group:"process"`
}

// system returns the configuration that the flags describe.
func (c upCmd) system() (system.Config, error) {
	dir, err := dataDir(c.DataDir)
	trust, also := c.Trust()
	faults := []error{err, also, c.CheckAccess(c.Process), c.CheckAdmin()}
	if c.NATS == "" {
		faults = append(faults, c.CheckLoopback("--nats-listen", c.NATSListen))
		if !c.IsZero() {
			faults = append(faults, fmt.Errorf("%w: flags for credentials, TLS, domain and inboxes need --nats; the embedded server needs none", natskit.ErrSettings))
		}
	}
	c.Pages, c.ProofKey = c.Allowed, natskit.ProofKey()
	return system.Config{
		Admin: c.Admin, AdminAuth: c.AdminAuth, PublicURL: c.PublicURL, NATS: c.NATS, Connect: c.Settings, Replicas: c.Replicas, Trust: trust,
		Embedded: natskit.EmbeddedConfig{Listen: c.NATSListen, DataDir: dir, Announce: announceDir()},
		Gateway:  c.Config, Notifier: c.Notifier, Embedworker: c.Embedworker,
	}, errors.Join(faults...)
}

// dataDir returns the storage folder of the embedded server, by default in the user's state
// folder (XDG Base Directory Specification).
func dataDir(flag string) (string, error) {
	switch flag {
	case natskit.InMemory:
		return flag, nil
	case "":
		return natskit.StateDir()
	}
	return filepath.Abs(flag)
}

// announceDir returns the folder in which other commands of the user find the NATS token; "" if
// there is none.
func announceDir() string {
	dir, _ := natskit.RuntimeDir() // without one the token is not announced
	return dir
}

// Run runs everything until the context ends.
func (c *upCmd) Run(ctx context.Context, std streams) error {
	if c.NATS == "" && c.DataDir != natskit.InMemory {
		if dir, err := dataDir(c.DataDir); err == nil {
			fmt.Fprintf(std.out, "Unloop is starting; its state is in %s.\n", dir)
		}
	} else {
		fmt.Fprintln(std.out, "Unloop is starting.")
	}
	s, err := c.start(ctx, std)
	if err != nil {
		return err
	}
	return runSystem(ctx, s, func(context.Context) error {
		var banner bytes.Buffer // written at once, for programs that wait for its first line
		out := streams{&banner, std.err, std.screen}.printer()
		out.printf("Unloop is ready. Point your agent's base URL at it:\n\n")
		for _, u := range gateway.Upstreams() {
			if len(u.Variables) > 0 {
				out.printf("  %-11s %s%s\n", u.Title, s.URL(), u.Variables[0].Path)
			}
		}
		out.printf("\nIn another terminal:\n\n%s", commands(s))
		_, err := banner.WriteTo(std.out)
		return errors.Join(out.err, err)
	})
}

// start makes all services. If another Unloop uses the ports or the folder, the error says how
// to reach it.
func (c upCmd) start(ctx context.Context, std streams) (*system.System, error) {
	cfg, err := c.system()
	if err != nil {
		return nil, err
	}
	log := c.Logger(std.err)
	cfg.Traces = tracing.FromEnv(ctx, "unloop", service.Version(), log)
	s, err := system.New(cfg, log)
	if err == nil {
		return s, nil
	}
	const second = "a second one needs ports and a folder of its own: --listen 127.0.0.1:0 --admin 127.0.0.1:0 --nats-listen 127.0.0.1:0 --data-dir DIR"
	if errors.Is(err, natskit.ErrDataDirInUse) || errors.Is(err, syscall.EADDRINUSE) {
		if _, away := ping(ctx, "http://"+c.Listen, ""); away == nil {
			return nil, fmt.Errorf("another Unloop is running already at http://%s: `unloop status` shows it, and agents can use it at once; %s (%w)", c.Listen, second, err)
		}
		return nil, fmt.Errorf("%w; %s", err, second)
	}
	return nil, err
}

// Default addresses of a process with everything.
const (
	usualListen = "127.0.0.1:8080"
	usualAdmin  = "127.0.0.1:8081"
	usualNATS   = "127.0.0.1:4222"
)

// commands returns example command lines for use with a system, with flags for its ports.
func commands(s *system.System) string {
	var gateway, nats, admin string
	if s.URL() != "http://"+usualListen {
		gateway = " --gateway " + s.URL()
	}
	if addr := natsAddress(s.NATSURL()); addr != defaultNATS {
		nats = " --nats " + addr
	}
	if s.AdminURL() != "http://"+usualAdmin {
		admin = " --admin " + s.AdminURL()
	}
	var out strings.Builder
	if url := s.DashboardURL(); url != "" {
		fmt.Fprintf(&out, "  %-24s  %s\n", "see it in a browser", url)
	}
	for _, c := range []struct{ does, line string }{
		{"run an agent through it", "unloop exec" + gateway + nats + " -- COMMAND"},
		{"list open loops", "unloop loops" + nats},
		{"follow their events", "unloop events" + nats},
		{"check that all is well", "unloop doctor" + gateway + nats + admin},
		{"read its metrics", "curl " + s.AdminURL() + "/metrics"},
	} {
		fmt.Fprintf(&out, "  %-24s  %s\n", c.does, c.line)
	}
	return out.String()
}

// natsAddress returns the URL of a NATS server without its token or password.
func natsAddress(addr string) string {
	u, err := url.Parse(addr)
	if err != nil {
		return defaultNATS
	}
	return "nats://" + u.Host
}

// runSystem runs a system, and calls then once it is ready. An error of then stops the system.
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
