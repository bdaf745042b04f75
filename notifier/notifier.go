package notifier

import (
	"context"
	"log/slog"

	"golang.org/x/sync/errgroup"

	"github.com/unloop/unloop/schemas"
	"github.com/unloop/unloop/schemas/kit/natskit"
	"github.com/unloop/unloop/schemas/kit/service"
)

// Notifier is the service. It implements service.Service.
type Notifier struct {
	cfg   Config
	deps  service.Deps
	log   *slog.Logger
	ready service.Readiness
	// fleet is nil without endpoints.
	fleet *fleet
	// dashboard is nil without --dashboard.
	dashboard *dashboard
}

// New returns a notifier, without connecting to anything yet. It fails if the configuration
// is not valid.
func New(cfg Config, deps service.Deps) (_ *Notifier, err error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	n := &Notifier{cfg: cfg, deps: deps, log: deps.Log}
	if cfg.Dashboard {
		n.dashboard = newDashboard(deps)
	}
	if !cfg.delivers() {
		return n, nil
	}
	if n.fleet, err = newFleet(n); err != nil {
		return nil, err
	}
	if n.dashboard != nil {
		n.dashboard.endpoints = n.fleet.endpoints
	}
	return n, nil
}

// Readiness is ready while events are read, or if no endpoint is configured.
func (n *Notifier) Readiness() *service.Readiness { return &n.ready }

// Streams returns the streams that deliveries need, and those that only the dashboard shows.
func (*Notifier) Streams() (needed, others []string) {
	bucket := natskit.BucketStream
	return []string{schemas.StreamEvents, schemas.StreamDeadLetters, bucket(schemas.BucketNotifications), bucket(schemas.BucketDeliveries), bucket(schemas.BucketSilences)},
		[]string{schemas.StreamAudit, bucket(schemas.BucketIncidents), bucket(schemas.BucketOverrides), bucket(schemas.BucketPolicies)}
}

// Run delivers events and keeps the dashboard up to date until the context ends.
func (n *Notifier) Run(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return n.runDelivery(ctx) })
	group.Go(func() error { return n.dashboard.run(ctx) })
	return group.Wait()
}

// runDelivery delivers events until the context ends. Deliveries in flight may finish within
// the grace period; the rest is cancelled and left to other notifiers. Without an endpoint all
// events stay in the stream. It fails if the stream has an unusable configuration.
func (n *Notifier) runDelivery(ctx context.Context) error {
	if n.fleet == nil {
		n.ready.Set(nil)
		<-ctx.Done()
		return nil
	}
	return n.fleet.run(ctx)
}
