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
	// fleet is nil when there is nothing to deliver to.
	fleet *fleet
	// dashboard is nil without --dashboard.
	dashboard *dashboard
}

// New returns a notifier; it dials nothing yet. It errs when the configuration
// is faulty.
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

// Readiness is ready while events are taken in, or when there is nothing to
// deliver them to.
func (n *Notifier) Readiness() *service.Readiness { return &n.ready }

// Streams returns the streams that deliveries need. The dashboard shows others, too.
func (*Notifier) Streams() (needed, others []string) {
	bucket := natskit.BucketStream
	return []string{schemas.StreamEvents, schemas.StreamDeadLetters, bucket(schemas.BucketNotifications), bucket(schemas.BucketDeliveries), bucket(schemas.BucketSilences)},
		[]string{schemas.StreamAudit, bucket(schemas.BucketIncidents), bucket(schemas.BucketOverrides), bucket(schemas.BucketPolicies)}
}

// Run delivers events, and keeps the dashboard in step, until the context ends.
func (n *Notifier) Run(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return n.runDelivery(ctx) })
	group.Go(func() error { return n.dashboard.run(ctx) })
	return group.Wait()
}

// runDelivery delivers events until the context ends; deliveries in flight may finish
// within the grace period; then they are cancelled and left to others. Without an endpoint
// it leaves all events in the stream. It fails if the stream is unfit.
func (n *Notifier) runDelivery(ctx context.Context) error {
	if n.fleet == nil {
		n.ready.Set(nil)
		<-ctx.Done()
		return nil
	}
	return n.fleet.run(ctx)
}
