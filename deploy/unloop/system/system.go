// Package system runs all services in one process, with an embedded NATS server or a cluster
// elsewhere. `unloop up`, `unloop exec` and end-to-end tests use it. The services do not know
// that they share a process.
package system

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/unloop/unloop/detector"
	"github.com/unloop/unloop/embedworker"
	"github.com/unloop/unloop/gateway"
	"github.com/unloop/unloop/notifier"
	"github.com/unloop/unloop/schemas/kit/natskit"
	"github.com/unloop/unloop/schemas/kit/seal"
	"github.com/unloop/unloop/schemas/kit/service"
	"github.com/unloop/unloop/schemas/kit/tracing"
)

// Config is the configuration of the whole process.
type Config struct {
	// Admin is the address of the admin port.
	Admin string
	// AdminAuth are the keys of the admin port, in the form that service.AdminGuard reads.
	AdminAuth []string
	// PublicURL is the address at which people open the dashboard. "" means the admin port, if
	// it is on a loopback address.
	PublicURL string
	// NATS is the URL of servers elsewhere; "" starts an embedded server.
	NATS string
	// Connect has the flags for connections to servers elsewhere.
	Connect natskit.Settings
	// Trust says which records of operators to accept.
	Trust    seal.Trust
	Replicas int
	Embedded natskit.EmbeddedConfig
	// OverNATS makes services send each other all requests over NATS, as separate processes
	// do, instead of calling each other where they can.
	OverNATS    bool
	Gateway     gateway.Config
	Notifier    notifier.Config
	Embedworker embedworker.Config
	// Traces exports the spans of all services; nil exports none. The system closes it.
	Traces *tracing.Provider
	// Clock is the clock for windows, cooldowns and blocks. If it is nil, detectors and workers
	// use the NATS server's clock, and gateways the machine's.
	Clock func() time.Time
}

// FreePort is the address of a free loopback port, which the operating system chooses.
const FreePort = "127.0.0.1:0"

// DefaultConfig returns the services' defaults, with free loopback ports and an embedded NATS
// server that stores in memory and does not listen.
func DefaultConfig() Config {
	cfg := Config{
		Admin: FreePort, Replicas: 1, Embedded: natskit.EmbeddedConfig{DataDir: natskit.InMemory},
		Gateway: gateway.DefaultConfig(), Notifier: notifier.DefaultConfig(),
		Embedworker: embedworker.DefaultConfig(),
	}
	cfg.Gateway.Listen = FreePort
	return cfg
}

// System is all of Unloop in one process. Make it with New, and call Run once.
type System struct {
	embedded *natskit.Embedded
	// stopGuard stops the goroutine that restarts the embedded server.
	stopGuard context.CancelFunc
	url       string
	settings  natskit.Settings
	conns     []*natskit.Conn
	inProcess *natskit.InProcess
	layout    natskit.Layout
	metrics   *prometheus.Registry
	gateway   *gateway.Gateway
	behind    []service.Named // all services but the gateway
	admin     *service.Admin
	dashboard bool
	traces    *tracing.Provider
	log       *slog.Logger
}

// New starts the embedded server and makes the services. If it fails, it stops everything
// that it started.
func New(cfg Config, log *slog.Logger) (_ *System, err error) {
	s := &System{traces: cfg.Traces, dashboard: cfg.Notifier.Dashboard, url: cfg.NATS, settings: cfg.Connect, layout: natskit.Layout{Replicas: cfg.Replicas}, metrics: service.NewRegistry(), log: log}
	if !cfg.OverNATS {
		s.inProcess = natskit.NewInProcess()
	}
	defer func() {
		if err != nil {
			s.close()
		}
	}()
	guard, err := service.AdminGuard(cfg.AdminAuth)
	if err != nil {
		return nil, err
	}
	if cfg.NATS == "" {
		if err := s.embed(cfg.Embedded); err != nil {
			return nil, err
		}
	}
	cfg.Notifier.Page = cfg.PublicURL
	cfg.Gateway.Local = service.Process{Admin: cfg.Admin}.LocalAdmin()
	if err := s.build(cfg); err != nil {
		return nil, err
	}
	if s.admin, err = service.NewAdmin(cfg.Admin, cfg.Gateway.Pages, s.metrics, s.services()...); err != nil {
		return nil, err
	}
	s.admin.Require(guard)
	page := cfg.PublicURL
	if page == "" && cfg.Gateway.Local {
		page = s.DashboardURL()
	}
	s.gateway.ShowAt(page, cfg.NATS == "" && cfg.Embedded.Listen == "")
	return s, nil
}

// embed starts the embedded server, and restarts it as needed until the system is closed.
func (s *System) embed(cfg natskit.EmbeddedConfig) (err error) {
	if s.embedded, err = natskit.StartEmbedded(cfg, s.log); err != nil {
		return err
	}
	s.url, s.layout = s.embedded.URL(), s.embedded.Layout()
	var guarding context.Context
	guarding, s.stopGuard = context.WithCancel(context.Background())
	go s.embedded.Guard(guarding)
	return nil
}

// build makes every service, with a connection and a log of its own.
func (s *System) build(cfg Config) error {
	clock := cfg.Clock
	if clock == nil {
		clock = time.Now
	}
	for _, part := range []struct {
		name string
		make func(service.Deps) (service.Service, error)
	}{
		{"detector", func(d service.Deps) (service.Service, error) {
			return detector.New(d, detector.WithClock(cfg.Clock))
		}},
		{"embedworker", func(d service.Deps) (service.Service, error) {
			return embedworker.New(cfg.Embedworker, d, embedworker.WithClock(cfg.Clock))
		}},
		{"notifier", func(d service.Deps) (service.Service, error) { return notifier.New(cfg.Notifier, d) }},
		{"gateway", func(d service.Deps) (_ service.Service, err error) {
			s.gateway, err = gateway.New(cfg.Gateway, d, gateway.WithClock(clock))
			return s.gateway, err
		}},
	} {
		log := s.log.With("service", part.name)
		nc, err := s.connect(part.name, log)
		if err != nil {
			return err
		}
		s.conns = append(s.conns, nc)
		svc, err := part.make(service.Deps{Log: log, Metrics: s.metrics, NATS: nc, InProcess: s.inProcess, Layout: s.layout, Trust: cfg.Trust, Traces: cfg.Traces.Tracer(part.name)})
		if err != nil {
			return err
		}
		service.Attach(context.Background(), part.name, svc, s.metrics, nc, s.layout) // it ends with the connection
		if part.name != "gateway" {
			s.behind = append(s.behind, service.Named{Name: part.name, Service: svc})
		}
	}
	return nil
}

func (s *System) connect(name string, log *slog.Logger) (*natskit.Conn, error) {
	if s.embedded != nil {
		return s.embedded.Connect(name, log)
	}
	return s.settings.Connect(s.url, name, log)
}

// services lists all services, the gateway first.
func (s *System) services() []service.Named {
	return append([]service.Named{{Name: "gateway", Service: s.gateway}}, s.behind...)
}

// URL returns the address that clients use as their base URL, without /v1.
func (s *System) URL() string { return localURL(s.gateway.Addr()) }

// BesideAddr returns the address at which other gateways ask over gRPC; "" for none.
func (s *System) BesideAddr() string { return s.gateway.BesideAddr() }

// localURL returns the URL at which programs on this machine reach a listening address.
func localURL(addr string) string {
	at, err := netip.ParseAddrPort(addr)
	if err == nil && at.Addr().IsUnspecified() {
		addr = netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, 1}), at.Port()).String()
	}
	return "http://" + addr
}

// DashboardURL returns the address of the dashboard; "" if it is turned off.
func (s *System) DashboardURL() string {
	if !s.dashboard {
		return ""
	}
	return s.AdminURL()
}

// AdminURL returns the address of the admin port.
func (s *System) AdminURL() string { return localURL(s.admin.Addr()) }

// NATSURL returns the address for NATS clients, with the token of the embedded server.
func (s *System) NATSURL() string { return s.url }

// Connect returns a new connection to NATS.
func (s *System) Connect() (*nats.Conn, error) {
	if s.embedded != nil {
		return s.embedded.Attach()
	}
	return s.settings.Dial(s.url, "unloop", nil)
}

// Wait waits until every service is ready.
func (s *System) Wait(ctx context.Context) error {
	for _, svc := range s.services() {
		if err := svc.Readiness().Wait(ctx); err != nil {
			return fmt.Errorf("%s is not ready: %w", svc.Name, err)
		}
	}
	return nil
}

// Metrics returns the metrics of all services.
func (s *System) Metrics() prometheus.Collector { return s.metrics }

// Run runs the services until the context ends or one of them fails. The gateway stops first,
// so that requests in flight still find a detector.
func (s *System) Run(ctx context.Context) error {
	defer s.close()
	failed, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	behind, stopBehind := context.WithCancel(context.WithoutCancel(ctx))
	defer stopBehind()
	background := make(chan error, 1)
	go func() {
		if err := s.conns[0].CheckState(failed); err != nil {
			fail(err)
		}
	}()
	go func() {
		err := service.RunAll(behind, append(s.behind, service.Named{Name: "admin", Service: s.admin})...)
		if err != nil {
			fail(err)
		}
		background <- err
	}()
	err := service.RunAll(failed, service.Named{Name: "gateway", Service: s.gateway})
	stopBehind()
	behindErr := <-background
	if cause := context.Cause(failed); errors.Is(cause, natskit.ErrState) {
		return cause
	}
	if behindErr != nil && errors.Is(err, behindErr) {
		return behindErr // the gateway's error only repeats why it was stopped
	}
	return errors.Join(err, behindErr)
}

func (s *System) close() {
	var closing sync.WaitGroup
	for _, nc := range s.conns {
		closing.Go(nc.Close)
	}
	closing.Wait()
	s.traces.Close()
	if s.embedded != nil {
		s.stopGuard()
		s.embedded.Stop()
	}
}
