// Package system puts all services into one process, on an embedded NATS
// server or on a cluster elsewhere. It is what `unloop up` runs and what
// end-to-end tests start; the services themselves do not know that they share
// a process.
package system

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/unloop/unloop/detector"
	"github.com/unloop/unloop/embedworker"
	"github.com/unloop/unloop/gateway"
	"github.com/unloop/unloop/notifier"
	"github.com/unloop/unloop/schemas/kit/natskit"
	"github.com/unloop/unloop/schemas/kit/service"
)

// Config is the whole process's configuration.
type Config struct {
	// Admin is the address of the admin port.
	Admin string
	// AdminAuth are the keys that open it, as service.AdminGuard has them.
	AdminAuth []string
	// NATS is the URL of servers elsewhere; without it one is embedded.
	NATS     string
	Replicas int
	Embedded natskit.EmbeddedConfig
	// OverNATS has the services send each other every request over NATS, as separate
	// processes do; otherwise requests stay within the process where they can.
	OverNATS bool
	Gateway  gateway.Config
	Detector detector.Config
	Notifier notifier.Config
	// Embedworker says what texts are compared with.
	Embedworker embedworker.Config
	// Clock judges windows, cooldowns and standing blocks; nil is the NATS server's for
	// detectors and workers, and the machine's for gateways.
	Clock func() time.Time
}

func (c Config) clock() func() time.Time {
	if c.Clock != nil {
		return c.Clock
	}
	return time.Now
}

// System is all of Unloop. Make it with New, and call Run once.
type System struct {
	embedded *natskit.Embedded
	// stopGuard ends what restarts the embedded server.
	stopGuard context.CancelFunc
	url       string
	conns     []*natskit.Conn
	loopback  *natskit.Loopback
	gateway   *gateway.Gateway
	detector  *detector.Detector
	notifier  *notifier.Notifier
	worker    *embedworker.Worker
	admin     *service.Admin
	log       *slog.Logger
}

// New starts the embedded server and makes the services. Whatever it started
// is stopped again when it errs.
func New(cfg Config, log *slog.Logger) (_ *System, err error) {
	s := &System{url: cfg.NATS, log: log}
	if !cfg.OverNATS {
		s.loopback = natskit.NewLoopback()
	}
	defer func() {
		if err != nil {
			s.close()
		}
	}()
	layout := natskit.Layout{Replicas: cfg.Replicas}
	if cfg.NATS == "" {
		if s.embedded, err = natskit.StartEmbedded(cfg.Embedded, log); err != nil {
			return nil, err
		}
		s.url, layout = s.embedded.URL(), s.embedded.Layout()
		var guarding context.Context
		guarding, s.stopGuard = context.WithCancel(context.Background())
		go s.embedded.Guard(guarding)
	}
	reg := service.NewRegistry()
	if s.detector, err = build(s, "detector", reg, layout, func(d service.Deps) (*detector.Detector, error) {
		return detector.New(cfg.Detector, d, detector.WithClock(cfg.Clock))
	}); err != nil {
		return nil, err
	}
	if s.notifier, err = build(s, "notifier", reg, layout, func(d service.Deps) (*notifier.Notifier, error) { return notifier.New(cfg.Notifier, d) }); err != nil {
		return nil, err
	}
	if s.worker, err = build(s, "embedworker", reg, layout, func(d service.Deps) (*embedworker.Worker, error) {
		return embedworker.New(cfg.Embedworker, d, embedworker.WithClock(cfg.Clock))
	}); err != nil {
		return nil, err
	}
	if s.gateway, err = build(s, "gateway", reg, layout, func(d service.Deps) (*gateway.Gateway, error) {
		return gateway.New(cfg.Gateway, d, gateway.WithClock(cfg.clock()))
	}); err != nil {
		return nil, err
	}
	guard, err := service.AdminGuard(cfg.AdminAuth)
	if err != nil {
		return nil, err
	}
	if s.admin, err = service.NewAdmin(cfg.Admin, cfg.Gateway.Pages, reg, s.services()...); err != nil {
		return nil, err
	}
	s.admin.Require(guard)
	return s, nil
}

// build makes a service with a connection and a log of its own.
func build[S service.Service](s *System, name string, reg *prometheus.Registry, layout natskit.Layout, make func(service.Deps) (S, error)) (S, error) {
	log := s.log.With("service", name)
	nc, err := s.connect(name, log)
	if err != nil {
		var none S
		return none, err
	}
	s.conns = append(s.conns, nc)
	svc, err := make(service.Deps{Log: log, Metrics: reg, NATS: nc, Loopback: s.loopback, Layout: layout})
	if err == nil {
		service.Attach(context.Background(), name, svc, reg, nc, layout) // it ends with the connection
	}
	return svc, err
}

func (s *System) connect(name string, log *slog.Logger) (*natskit.Conn, error) {
	if s.embedded != nil {
		return s.embedded.Connect(name, log)
	}
	return natskit.Connect(s.url, name, log)
}

func (s *System) services() []service.Named {
	return []service.Named{
		{Name: "gateway", Service: s.gateway}, {Name: "detector", Service: s.detector},
		{Name: "embedworker", Service: s.worker}, {Name: "notifier", Service: s.notifier},
	}
}

// URL is where clients point their base URL, without /v1.
func (s *System) URL() string { return "http://" + s.gateway.Addr() }

// AdminURL is the admin port's address.
func (s *System) AdminURL() string { return "http://" + s.admin.Addr() }

// NATSURL is where NATS clients connect, with the embedded server's token.
func (s *System) NATSURL() string { return s.url }

// Connect returns a connection to NATS for who started the system, beside those
// of the services.
func (s *System) Connect() (*nats.Conn, error) {
	if s.embedded != nil {
		return s.embedded.Attach()
	}
	return nats.Connect(s.url)
}

// Wait returns when every service is ready.
func (s *System) Wait(ctx context.Context) error {
	for _, svc := range s.services() {
		if err := svc.Readiness().Wait(ctx); err != nil {
			return fmt.Errorf("%s is not ready: %w", svc.Name, err)
		}
	}
	return nil
}

// Run runs the services until the context ends or one of them fails. The
// gateway goes first, so that the requests in flight still find a detector.
func (s *System) Run(ctx context.Context) error {
	defer s.close()
	failed, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	behind, stopBehind := context.WithCancel(context.WithoutCancel(ctx))
	defer stopBehind()
	background := make(chan error, 1)
	go func() {
		err := service.RunAll(behind, service.Named{Name: "detector", Service: s.detector},
			service.Named{Name: "embedworker", Service: s.worker},
			service.Named{Name: "notifier", Service: s.notifier}, service.Named{Name: "admin", Service: s.admin})
		if err != nil {
			fail(err)
		}
		background <- err
	}()
	err := service.RunAll(failed, service.Named{Name: "gateway", Service: s.gateway})
	stopBehind()
	behindErr := <-background
	if behindErr != nil && errors.Is(err, behindErr) {
		return behindErr // the gateway only says why it was stopped
	}
	return errors.Join(err, behindErr)
}

func (s *System) close() {
	var closing sync.WaitGroup
	for _, nc := range s.conns {
		closing.Go(func() {
			nc.Close()
		})
	}
	closing.Wait()
	if s.embedded != nil {
		s.stopGuard()
		s.embedded.Stop()
	}
}
