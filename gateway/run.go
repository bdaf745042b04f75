package gateway

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/unloop/unloop/gateway/internal/ask/ask"
	"github.com/unloop/unloop/gateway/internal/ask/checker"
	"github.com/unloop/unloop/gateway/internal/ask/standing"
	"github.com/unloop/unloop/gateway/internal/decide/evidence"
	"github.com/unloop/unloop/gateway/internal/edge/admit"
	"github.com/unloop/unloop/gateway/internal/edge/auth"
	"github.com/unloop/unloop/gateway/internal/edge/beside"
	"github.com/unloop/unloop/gateway/internal/edge/checkapi"
	"github.com/unloop/unloop/gateway/internal/edge/forward"
	"github.com/unloop/unloop/gateway/internal/edge/intake"
	"github.com/unloop/unloop/gateway/internal/edge/respond"
	"github.com/unloop/unloop/gateway/internal/edge/rpc"
	"github.com/unloop/unloop/gateway/internal/edge/serve"
	"github.com/unloop/unloop/gateway/internal/edge/stages"
	"github.com/unloop/unloop/gateway/internal/edge/wait"
	"github.com/unloop/unloop/gateway/internal/memory/account"
	"github.com/unloop/unloop/gateway/internal/memory/answers"
	"github.com/unloop/unloop/gateway/internal/memory/cluster"
	"github.com/unloop/unloop/gateway/internal/memory/excerpts"
	"github.com/unloop/unloop/gateway/internal/memory/owed"
	"github.com/unloop/unloop/gateway/internal/memory/recording"
	"github.com/unloop/unloop/gateway/internal/memory/resolve"
	"github.com/unloop/unloop/gateway/internal/memory/spent"
	"github.com/unloop/unloop/gateway/internal/rules/policystore"
	"github.com/unloop/unloop/gateway/internal/share/limiter"
	"github.com/unloop/unloop/gateway/internal/wire/route"
	"github.com/unloop/unloop/schemas/kit/access"
	"github.com/unloop/unloop/schemas/kit/service"
)

// New returns a gateway that already listens; Run serves.
func New(cfg Config, deps service.Deps, opts ...Option) (*Gateway, error) {
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("configure gateway: %w", err)
	}
	table, err := route.NewTable(cfg.Upstream)
	g := &Gateway{
		cfg: cfg, now: time.Now, stages: stages.Stages{MaxInspectBytes: cfg.MaxInspectBytes, Table: table, Memory: evidence.NewMemory(), Spent: spent.New()},
		deps: deps, metrics: newMetrics(deps.Metrics),
		bounds: bounds{wait.New(cfg.MaxDelayed, deps.Metrics), intake.NewBodies(cfg.MaxBodyMemory, deps.Metrics), limiter.New(deps.Metrics)},
	}
	for _, opt := range opts {
		opt(g)
	}
	var policyErr error
	g.stages.Policies, policyErr = policystore.New(cfg.policies(), g.now, g.deps.Log, deps.Metrics)
	g.stages.Now = g.now
	if err := errors.Join(err, policyErr, g.prepareKeys()); err != nil {
		return nil, fmt.Errorf("configure gateway: %w", err)
	}
	key, _ := cfg.hashKey() // Validate has seen it
	g.shared = cluster.New(key, deps.Trust, g.now, g.deps.Log)
	g.shared.Measure(deps.Metrics)
	g.ready.Also(g.starts)
	g.api = checkapi.New(checkapi.Config{
		Reader: checkapi.Reader{Table: table, MaxBytes: cfg.MaxInspectBytes}, Gate: g.stages.Gate, Decider: checks{g}, Ready: g.ready.Err, ProofKey: cfg.ProofKey,
	})
	var besideErr error
	g.beside, besideErr = beside.New(g.api, g.decideOn, cfg.BesideSecret)
	store, err := answers.NewStore(deps.NATS)
	var recordErr error
	g.recorder, recordErr = recording.Open(cfg.Record, g.deps.Log, deps.Metrics)
	if err := errors.Join(err, recordErr, besideErr); err != nil {
		return nil, fmt.Errorf("configure gateway: %w", err)
	}
	if !cfg.NoExcerpts {
		g.excerpts = excerpts.New()
	}
	g.stages.Resolver = resolve.New(resolve.Config{Project: cfg.Project, Timeout: cfg.CheckTimeout}, store, deps.Metrics)
	g.checker = checker.New(deps.NATS, cfg.CheckTimeout, g.now, deps.Metrics)
	g.checker.Prefer(deps.InProcess)
	g.asker = ask.New(g.checker, g.deps.Log, g.now, deps.Metrics)
	g.asker.Traces = deps.Traces
	g.owed = owed.New(deps.NATS, g.now)
	g.writer = respond.NewWriter(g.now, deps.Metrics)
	g.accounts = account.NewDeps(account.Deps{Detectors: g.checker, Store: store, Timeout: cfg.CheckTimeout, Now: g.now}, deps.Metrics)
	g.repeats = standing.NewRequests[basis, *rejected](g.checker.Blocks())
	if err := g.listen(); err != nil {
		return nil, err
	}
	return g, nil
}

// listen opens the gateway's ports. The address of the first determines which web pages may
// call it.
func (g *Gateway) listen() (err error) {
	if g.listener, err = serve.Listen("--listen", g.cfg.Listen, g.cfg.TLS, g.deps.Log); err != nil {
		return err
	}
	if g.cfg.BesideListen != "" {
		if g.callers, err = serve.Listen("--beside-listen", g.cfg.BesideListen, g.cfg.TLS, g.deps.Log); err != nil {
			return errors.Join(err, g.listener.Close())
		}
	}
	if g.stages.Gate.Pages, err = access.NewPages(g.listener.Addr(), g.cfg.Pages); err != nil {
		if g.callers != nil {
			err = errors.Join(err, g.callers.Close())
		}
		return errors.Join(fmt.Errorf("configure gateway: %w", err), g.listener.Close())
	}
	return nil
}

// prepareKeys reads the keys of clients and of upstreams.
func (g *Gateway) prepareKeys() error {
	keys, keyErr := forward.ReadKeys(g.cfg.UpstreamKey, g.stages.Table)
	var authErr error
	g.stages.Gate, authErr = admit.New(auth.Config{
		Sources: g.cfg.Auth, Issuer: g.cfg.AuthIssuer, Audiences: g.cfg.AuthAudience, TenantClaim: g.cfg.AuthTenantClaim,
	}, slices.Collect(maps.Keys(keys)), g.deps.Log, g.deps.Metrics)
	transport, transportErr := forward.NewTransport(g.cfg.UpstreamCA)
	g.proxy = forward.New(transport, keys, g.deps.Log, g.deps.Metrics)
	return errors.Join(authErr, keyErr, transportErr)
}

// Run serves until the context ends, then finishes the requests in flight.
func (g *Gateway) Run(ctx context.Context) error {
	// The checker outlives the last request.
	following, stopFollowing := context.WithCancel(context.WithoutCancel(ctx))
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return g.checker.Follow(following) })
	group.Go(func() error { return g.owed.Follow(following) })
	group.Go(func() error { return g.recorder.Run(following) })
	group.Go(func() error { return g.prepare(ctx) })
	group.Go(func() error { return g.stages.Policies.FollowFile(ctx) })
	group.Go(func() error { return g.stages.Gate.Run(ctx) })
	group.Go(func() error {
		defer stopFollowing()
		defer g.proxy.Wait() // upgraded connections end last
		return g.listenUntil(ctx)
	})
	return group.Wait()
}

// listenUntil serves at all ports until the context ends, then finishes the requests in flight.
func (g *Gateway) listenUntil(ctx context.Context) error {
	ports, ctx := errgroup.WithContext(ctx)
	cfg := serve.Config{
		Handler: g, Log: g.deps.Log, Draining: func() { g.ready.Set(service.ErrDraining) }, Delay: g.cfg.ShutdownDelay, Grace: g.cfg.ShutdownGrace,
	}
	ports.Go(func() error { return serve.Until(ctx, g.listener, cfg) })
	if g.callers != nil {
		calls := cfg
		calls.Handler, calls.RPC = rpc.New(rpc.Config{Gateway: passing{g}, API: g.api, MaxBytes: g.cfg.MaxInspectBytes, Bodies: g.bodies}), true
		ports.Go(func() error { return serve.Until(ctx, g.callers, calls) })
	}
	return ports.Wait()
}

// starts returns ErrStarting until the gateway can check requests: policies, overrides and
// the caller hash key were read, and a detector was heard or waited for in vain.
func (g *Gateway) starts() error {
	loaded, ok := g.shared.Loaded()
	alone := g.deps.InProcess == nil && !g.checker.Knows() && time.Since(loaded) < g.grace()
	if !ok || alone {
		return service.ErrStarting
	}
	return nil
}

// grace is how long the gateway waits for the cluster, and for a detector.
func (g *Gateway) grace() time.Duration { return cmp.Or(g.cfg.StartGrace, 2*time.Second) }

// prepare follows the state that all gateways of the cluster share, and sets the gateway
// ready: once that state was read, or after the grace period without it.
func (g *Gateway) prepare(ctx context.Context) error {
	grace := time.AfterFunc(g.grace(), func() {
		if _, ok := g.shared.Loaded(); !ok && ctx.Err() == nil {
			g.deps.Log.Warn("not connected to the cluster yet; requests are not checked")
			g.ready.Set(nil)
		}
	})
	defer grace.Stop()
	return g.shared.Follow(ctx, g.deps.NATS, g.deps.Layout, g.stages.Policies.Pushed, func() {
		grace.Stop()
		g.deps.Log.Info("serving", "listen", g.Addr(), "policies", g.stages.Policies.Rules().Version())
		g.ready.Set(nil)
	})
}
