package notifier

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"

	"github.com/nats-io/nats.go/jetstream"
	"golang.org/x/sync/errgroup"

	"github.com/unloop/unloop/notifier/internal/deliver"
	"github.com/unloop/unloop/notifier/internal/endpoints"
	"github.com/unloop/unloop/notifier/internal/outbox"
	"github.com/unloop/unloop/notifier/internal/pull"
	"github.com/unloop/unloop/schemas/kit/natskit"
	"github.com/unloop/unloop/schemas/kit/silences"
)

// fleet runs all endpoints of the notifier, each with its consumer and workers. Make it with
// newFleet.
type fleet struct {
	*Notifier
	pipeline *deliver.Pipeline
	silences *silences.Set
	// loader is nil without --notify.
	loader *endpoints.Loader
	// fromFlags and fromFile are the endpoints at the start.
	fromFlags, fromFile []endpoints.Built

	running map[string]*member

	mu     sync.Mutex
	states map[string]error
}

// member is an endpoint in use.
type member struct {
	built endpoints.Built
	stop  context.CancelFunc
	done  chan struct{}
}

func newFleet(n *Notifier) (_ *fleet, err error) {
	f := &fleet{Notifier: n, silences: silences.NewSet(), running: map[string]*member{}, states: map[string]error{}}
	if f.fromFlags, err = n.cfg.webhooks(); err != nil {
		return nil, err
	}
	if n.cfg.Notify != "" {
		allowed, err := n.cfg.allowed()
		if err != nil {
			return nil, err
		}
		f.loader = endpoints.NewLoader(n.cfg.Notify, allowed, endpoints.System())
		if f.fromFile, err = f.loader.Load(); err != nil {
			return nil, err
		}
	}
	f.pipeline = deliver.New(deliver.Config{
		NATS: n.deps.NATS, Layout: n.deps.Layout, Log: n.log, Metrics: n.deps.Metrics, Traces: n.deps.Traces, Silences: f.silences.All, Grace: n.cfg.WebhookGrace, Page: n.cfg.Page,
	})
	return f, nil
}

// run delivers events until the context ends. It fails if a stream has an unusable
// configuration.
func (f *fleet) run(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	follower := &natskit.Follower{Conn: f.deps.NATS, Layout: f.deps.Layout, Log: f.log}
	loaded := make(chan struct{})
	load := sync.OnceFunc(func() { close(loaded) })
	group.Go(func() error {
		return f.silences.Follow(ctx, follower, func() { load(); f.pipeline.Unsilence() })
	})
	group.Go(func() error { return f.pipeline.Follow(ctx) })
	group.Go(func() error { return f.pipeline.Serve(ctx) })
	select {
	case <-loaded: // otherwise messages about silenced loops would be sent first
	case <-ctx.Done():
	}
	f.use(ctx, group, slices.Concat(f.fromFlags, f.fromFile))
	if f.loader != nil {
		group.Go(func() error {
			return f.loader.Follow(ctx, func(all []endpoints.Built) {
				f.use(ctx, group, slices.Concat(f.fromFlags, all))
				f.log.Info("endpoints reloaded", "file", f.cfg.Notify, "endpoints", len(all))
			}, func(err error) {
				f.log.Warn("endpoints stay as they are: the file has faults", "error", err)
			})
		})
	}
	err := group.Wait()
	for _, m := range f.running {
		m.built.Sink.Close()
	}
	return err
}

// use starts endpoints that are new, changes those that run, and stops those that are not in
// the list.
func (f *fleet) use(ctx context.Context, group *errgroup.Group, all []endpoints.Built) {
	f.warn(ctx, all)
	wanted := map[string]bool{}
	for _, b := range all {
		wanted[b.Name] = true
		old := f.running[b.Name]
		f.pipeline.Use(f.define(&b))
		if old != nil {
			old.built.Sink.Close()
			old.built = b
			continue
		}
		running, stop := context.WithCancel(ctx)
		m := &member{built: b, stop: stop, done: make(chan struct{})}
		f.running[b.Name] = m
		f.set(b.Name, errStarting)
		group.Go(func() error { defer close(m.done); defer stop(); return f.member(running, b.Name) })
	}
	for name, m := range f.running {
		if wanted[name] {
			continue
		}
		m.stop()
		<-m.done
		m.built.Sink.Close()
		delete(f.running, name)
		f.forget(name)
	}
}

var errStarting = errors.New("its events have not been read yet")

// warn logs how many endpoints have unsigned messages, and names that occur twice.
func (f *fleet) warn(ctx context.Context, all []endpoints.Built) {
	unsigned, names := 0, map[string]bool{}
	for _, b := range all {
		if !b.Signed {
			unsigned++
		}
		if names[b.Name] {
			f.log.WarnContext(ctx, "two endpoints have the same name; the last one is used", "endpoint", b.Name)
		}
		names[b.Name] = true
	}
	if unsigned > 0 {
		f.log.WarnContext(ctx, "webhook deliveries are not signed; set --webhook-secret-file, or secrets in the file", "endpoints", unsigned)
	}
}

func (f *fleet) define(b *endpoints.Built) *deliver.Endpoint {
	return &deliver.Endpoint{
		Name: b.Name, Kind: b.Kind, Sink: b.Sink, Routes: b.Routes, Throttle: b.Throttle, Schedule: outbox.Schedule(f.cfg.WebhookRetry),
		Timeout: f.cfg.WebhookTimeout, Concurrency: f.cfg.WebhookConcurrency,
	}
}

// member reads and delivers the events of one endpoint until the context ends.
func (f *fleet) member(ctx context.Context, name string) error {
	since, err := f.cfg.since()
	if err != nil {
		return err
	}
	in := pull.New(f.deps.NATS, pull.Config{
		Endpoint: name, Since: since, Layout: f.deps.Layout, Missed: f.pipeline.Missed(name),
		State: func(err error) { f.set(name, err) },
	}, func(ctx context.Context, msg jetstream.Msg) { f.pipeline.Accept(ctx, name, msg) }, f.log)
	delivered := make(chan struct{})
	go func() { defer close(delivered); f.pipeline.Run(ctx, name) }()
	err = in.Run(ctx)
	<-delivered
	return err
}

// set stores why the events of an endpoint can't be read, nil if they can.
func (f *fleet) set(name string, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.states[name] = err
	f.updateReadiness()
}

func (f *fleet) forget(name string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.states, name)
	f.updateReadiness()
}

// updateReadiness sets the readiness; the lock is held.
func (f *fleet) updateReadiness() { f.ready.Set(errors.Join(slices.Collect(maps.Values(f.states))...)) }
