package notifier

import (
	"context"
	"log/slog"

	"golang.org/x/sync/errgroup"

	"github.com/unloop/unloop/notifier/internal/delivery"
	"github.com/unloop/unloop/notifier/internal/intake"
	"github.com/unloop/unloop/notifier/internal/interrupted"
	"github.com/unloop/unloop/notifier/internal/webhook"
	"github.com/unloop/unloop/schemas/kit/service"
)

// Notifier is the service. It implements service.Service.
type Notifier struct {
	cfg   Config
	deps  service.Deps
	log   *slog.Logger
	ready service.Readiness
	// intake is nil when there is nothing to deliver to.
	intake   *intake.Intake
	webhooks []*webhook.Webhook
	// dashboard is nil without --dashboard.
	dashboard *dashboard
}

// New returns a notifier; it dials nothing yet. It errs when the configuration
// is faulty, or when its metrics are registered already.
func New(cfg Config, deps service.Deps) (*Notifier, error) {
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
	if err := n.deliver(); err != nil {
		return nil, err
	}
	return n, nil
}

func (n *Notifier) deliver() error {
	hooks, sink, err := newWebhooks(n.cfg)
	if err != nil {
		return err
	}
	metrics, err := delivery.NewMetrics(n.deps.Metrics, sink.Name())
	if err != nil {
		return err
	}
	pipeline := delivery.New(sink, n.cfg.WebhookTimeout, delivery.Retry{
		Min: n.cfg.WebhookRetryMin, Max: n.cfg.WebhookRetryMax,
		MaxAge: n.cfg.WebhookMaxAge, MaxAttempts: n.cfg.WebhookMaxAttempts,
	}, metrics, n.log)
	pipeline.Excuse(interrupted.New(n.deps.NATS, n.cfg.WebhookMaxAge))
	n.webhooks = hooks
	n.intake = intake.New(n.deps.NATS, intake.Config{
		Places: n.cfg.WebhookConcurrency, Reach: n.cfg.WebhookMaxAge,
		Grace: n.cfg.WebhookGrace, Layout: n.deps.Layout, Returned: pipeline.Returned,
	}, pipeline.Handle, &n.ready, n.log)
	return nil
}

// Readiness is ready while events are taken in, or when there is nothing to
// deliver them to.
func (n *Notifier) Readiness() *service.Readiness { return &n.ready }

// Run delivers events, and keeps the dashboard in step, until the context ends.
func (n *Notifier) Run(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return n.runDelivery(ctx) })
	group.Go(func() error { return n.dashboard.run(ctx) })
	return group.Wait()
}

// runDelivery delivers events until the context ends; what is under way may go on for
// the grace, then it is broken off and left to others. Without a webhook it
// leaves all events in the stream. It errs if the stream is unfit.
func (n *Notifier) runDelivery(ctx context.Context) error {
	if n.intake == nil {
		n.ready.Set(nil)
		<-ctx.Done()
		return nil
	}
	defer func() {
		for _, hook := range n.webhooks {
			hook.Close()
		}
	}()
	if unsigned := n.cfg.unsigned(); unsigned > 0 {
		n.log.WarnContext(ctx, "webhook deliveries are not signed; set --webhook-secret-file", "endpoints", unsigned)
	}
	return n.intake.Run(ctx)
}
