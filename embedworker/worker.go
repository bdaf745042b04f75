// Package embedworker answers whether a text repeats, in other words, what its
// session, caller or tenant said before: on NATS for detectors and gateways,
// and on a Unix socket for Agent Sentinel's proxy.
//
// Any number of workers share the work and the histories. A worker knows no policies:
// each request has its parameters. Requests have texts, and hashes in place of sessions,
// callers and tenants. A worker stores vectors, and texts only on request.
package embedworker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/nats-io/nats.go/micro"
	"golang.org/x/sync/errgroup"

	"github.com/unloop/unloop/embedworker/internal/embed"
	"github.com/unloop/unloop/embedworker/internal/semantic"
	"github.com/unloop/unloop/embedworker/internal/sentinel"
	"github.com/unloop/unloop/embedworker/internal/vectors"
	"github.com/unloop/unloop/schemas"
	"github.com/unloop/unloop/schemas/kit/natskit"
	"github.com/unloop/unloop/schemas/kit/servertime"
	"github.com/unloop/unloop/schemas/kit/service"
	"github.com/unloop/unloop/schemas/kit/spare"
)

// Worker is one embedding worker. Make it with New.
type Worker struct {
	cfg          Config
	deps         service.Deps
	log          *slog.Logger
	now          func() time.Time
	clock        *servertime.Clock
	metrics      *metrics
	ready        service.Readiness
	store        vectors.Store
	checker      *semantic.Checker
	embedderName string
	slots        chan struct{}
	goroutines   *spare.Goroutines

	// working are the checks in flight; none begins after stopped is set.
	working sync.WaitGroup
	mu      sync.Mutex
	stopped bool
}

// Option changes what New makes.
type Option func(*Worker)

// WithClock expires histories by another clock than the NATS server's; nil changes nothing.
func WithClock(now func() time.Time) Option {
	return func(w *Worker) {
		if now != nil {
			w.now = now
		}
	}
}

// maxInFlight bounds the concurrent checks of a worker; further ones fail open.
const maxInFlight = 1024

// New returns a worker, without loading a model yet. Run starts it.
func New(cfg Config, deps service.Deps, opts ...Option) (*Worker, error) {
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("configure embedding worker: %w", err)
	}
	w := &Worker{
		cfg: cfg, deps: deps, log: deps.Log, clock: servertime.New(time.Now, deps.NATS.ServerTime, deps.Log), metrics: newMetrics(deps.Metrics),
		slots: make(chan struct{}, maxInFlight), goroutines: spare.New(),
	}
	w.now = w.clock.Now
	for _, opt := range opts {
		opt(w)
	}
	deps.Metrics.MustRegister(w.clock.Gauge("unloop_embedworker_clock_offset_seconds"))
	var err error
	if cfg.VectorStore == "redis" {
		w.store, err = vectors.NewRedis(cfg.Redis, w.now)
	} else {
		w.store = vectors.NewKV(deps.NATS, deps.Layout, w.now, deps.Metrics)
	}
	if err != nil {
		return nil, fmt.Errorf("configure embedding worker: %w", err)
	}
	return w, nil
}

// Readiness is ready when the model is loaded and the store was reached.
func (w *Worker) Readiness() *service.Readiness { return &w.ready }

// Streams returns none: the worker creates its bucket itself.
func (*Worker) Streams() (needed, others []string) { return nil, nil }

// Run loads and warms up the embedder, accepts requests until the context ends, and answers
// those that it has accepted. It fails if the configured model does not work.
func (w *Worker) Run(ctx context.Context) (err error) {
	defer func() { err = errors.Join(err, w.store.Close()) }()
	cfg := w.cfg.embedConfig()
	cfg.OnRun = w.metrics.ran
	e, err := embed.Open(ctx, cfg, w.log)
	if err != nil {
		return fmt.Errorf("start embedding worker: %w", err)
	}
	defer func() { err = errors.Join(err, e.Close()) }()
	w.embedderName = e.Name()
	used, err := w.cached(e)
	if err != nil {
		return fmt.Errorf("start embedding worker: %w", err)
	}
	w.checker = semantic.New(used, w.store, semantic.Observer{Took: w.metrics.observe, Text: w.metrics.text})
	return w.serve(ctx)
}

// cached puts a cache in front of a model. The lexical embedder is as fast as a cache.
func (w *Worker) cached(e embed.Embedder) (embed.Embedder, error) {
	if _, cheap := e.(*embed.Lexical); cheap {
		return e, nil
	}
	return embed.NewCached(e, w.cfg.EmbedCache, w.metrics.cached.Inc)
}

// serve answers requests on NATS and on the socket until ctx is done, then shuts
// down.
func (w *Worker) serve(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	w.clock.Start(ctx)
	unsubscribe, err := w.subscribe()
	if err != nil {
		return err
	}
	if err := w.serveSentinel(ctx, group); err != nil {
		unsubscribe()
		return err
	}
	stopInProcess := w.deps.InProcess.Serve(schemas.SubjectSemantic, w.onCheck)
	group.Go(func() error { return w.reachStore(ctx) })
	group.Go(func() error {
		<-ctx.Done()
		w.ready.Set(context.Cause(ctx))
		stopInProcess()
		w.stop(unsubscribe)
		return nil
	})
	return group.Wait()
}

// stopTimeout bounds the wait until the server has removed the subscription and delivered
// earlier requests.
const stopTimeout = time.Second

// stop accepts no more requests and finishes those that were accepted.
func (w *Worker) stop(unsubscribe func()) {
	unsubscribe()
	w.deps.NATS.CatchUp(stopTimeout) // later requests go to other workers
	w.mu.Lock()
	w.stopped = true
	w.mu.Unlock()
	w.goroutines.Stop()
	w.working.Wait()
}

// begin runs work, here or in a goroutine. It returns false if too many checks are in flight or
// the worker has stopped.
func (w *Worker) begin(here bool, work func()) bool {
	if !w.enter() {
		return false
	}
	if here {
		defer w.leave()
		work()
		return true
	}
	w.goroutines.Go(func() {
		defer w.leave()
		work()
	})
	return true
}

func (w *Worker) enter() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.stopped {
		return false
	}
	select {
	case w.slots <- struct{}{}:
		w.working.Add(1)
		return true
	default:
		return false
	}
}

func (w *Worker) leave() {
	<-w.slots
	w.working.Done()
}

// subscribe registers the worker as a NATS micro service.
func (w *Worker) subscribe() (stop func(), err error) {
	return w.deps.NATS.Respond(micro.Config{
		Name: "unloop-embedworker", Version: "0.1.0", QueueGroup: schemas.QueueEmbedworker,
		Description: "Says whether a text repeats in other words",
		Metadata:    map[string]string{"embedder": w.embedderName},
	}, natskit.Responder{Name: "semantic", Subject: schemas.SubjectSemantic, Handle: w.onCheck})
}

func (w *Worker) serveSentinel(ctx context.Context, group *errgroup.Group) error {
	path := w.cfg.socket()
	if path == "" {
		return nil
	}
	ttl, err := w.cfg.sentinelTTL()
	if err != nil {
		return err
	}
	ln, err := sentinel.Listen(ctx, path)
	if err != nil {
		return err
	}
	server := sentinel.New(w.checker, sentinel.Config{
		Called:    func(result string) { w.metrics.checkLoop.WithLabelValues(result).Inc() },
		Threshold: w.cfg.SentinelThreshold, Keep: w.cfg.SentinelHistory, TTL: ttl, StoreText: w.cfg.SentinelStoreText,
	})
	w.log.Info("serving Agent Sentinel's interface", "socket", path)
	group.Go(func() error { return server.Run(ctx, ln) })
	return nil
}

// Bounds of the backoff while the store can't be reached.
const (
	storeRetry    = 100 * time.Millisecond
	storeRetryMax = 2 * time.Second
)

// reachStore tries the store until it answers; then the worker is ready. Earlier requests get
// the store's error.
func (w *Worker) reachStore(ctx context.Context) error {
	level := slog.LevelWarn // only for the first attempt
	for wait := storeRetry; ; wait = min(2*wait, storeRetryMax) {
		err := w.store.Ping(ctx)
		if err == nil {
			// The server must know the subscription for checks.
			w.deps.NATS.Flush(storeRetryMax)
			err = w.deps.NATS.Err()
		}
		if err == nil {
			w.metrics.info.WithLabelValues(w.embedderName, w.store.Kind()).Set(1)
			w.ready.Set(nil)
			return nil
		}
		if ctx.Err() != nil {
			return nil //nolint:nilerr // the worker stops, whatever the store's error is
		}
		w.ready.Set(err)
		w.log.Log(ctx, level, "vector store is not ready, retrying", "error", err, "after", wait)
		level = slog.LevelDebug
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return nil
		}
	}
}
