package delivery

import (
	"context"
	"fmt"
	"log/slog"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
)

// Metrics of one sink.
type Metrics struct {
	results map[Result]prometheus.Counter
	seconds prometheus.Observer
}

// NewMetrics registers the metrics of the named sink. It errs when they are
// registered already.
func NewMetrics(reg prometheus.Registerer, sink string) (*Metrics, error) {
	deliveries := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "unloop_notifier_deliveries_total",
		Help: "Attempts to deliver an event to a sink, by how they ended.",
	}, []string{"sink", "result"})
	seconds := prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name:    "unloop_notifier_delivery_seconds",
		Help:    "How long sinks took for one attempt.",
		Buckets: prometheus.ExponentialBuckets(0.005, 2, 13),
	}, []string{"sink"})
	for _, c := range []prometheus.Collector{deliveries, seconds} {
		if err := reg.Register(c); err != nil {
			return nil, fmt.Errorf("register metrics: %w", err)
		}
	}
	m := &Metrics{results: map[Result]prometheus.Counter{}, seconds: seconds.WithLabelValues(sink)}
	for _, r := range results {
		m.results[r] = deliveries.WithLabelValues(sink, string(r))
	}
	return m, nil
}

// reporter says how deliveries go: a metric for each, a log line for each
// event that is lost, and one when the sink begins or ceases to fail.
type reporter struct {
	log     *slog.Logger
	metrics *Metrics
	failing atomic.Bool
}

func (r *reporter) report(ctx context.Context, a attempt, v disposition, err error) {
	r.metrics.results[v.result].Inc()
	switch v.result {
	case Delivered:
		if r.failing.Swap(false) {
			r.log.InfoContext(ctx, "sink takes events again")
		}
	case Retried:
		if !r.failing.Swap(true) {
			r.log.WarnContext(ctx, "sink does not take events, trying again", "error", err, "after", v.delay)
		}
	case Rejected:
		r.lost(ctx, "sink refused an event for good", a, err)
	case Expired:
		r.lost(ctx, "gave an event up", a, err)
	case Invalid:
		// The error would quote from the body.
		r.log.WarnContext(ctx, "dropped a message that is no event", "stream_sequence", a.sequence)
	case Interrupted:
	}
}

func (r *reporter) lost(ctx context.Context, message string, a attempt, err error) {
	//nolint:sloglint // the callers' messages are constants
	r.log.WarnContext(ctx, message, "error", err, "event_id", a.event.ID, "event_type", a.event.Type,
		"stream_sequence", a.sequence, "attempts", a.number)
}
