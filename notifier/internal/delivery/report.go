package delivery

import (
	"context"
	"fmt"
	"log/slog"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/unloop/unloop/notifier/internal/routing"
)

// Metrics of deliveries, by endpoint.
type Metrics struct {
	deliveries     *prometheus.CounterVec
	seconds        *prometheus.HistogramVec
	owed, disabled *prometheus.GaugeVec
	dead, missed   *prometheus.CounterVec
}

// newMetrics registers the metrics. It errs when they are registered already.
func newMetrics(reg prometheus.Registerer) (*Metrics, error) {
	m := &Metrics{
		deliveries: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "unloop_notifier_deliveries_total", Help: "Attempts to deliver a message to an endpoint, by how they ended.",
		}, []string{"endpoint", "sink", "result"}),
		seconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "unloop_notifier_delivery_seconds", Help: "How long endpoints took for one attempt.",
			Buckets: prometheus.ExponentialBuckets(0.005, 2, 13),
		}, []string{"endpoint", "sink"}),
		owed: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "unloop_notifier_owed", Help: "Groups of loops about which an endpoint is owed a message.",
		}, []string{"endpoint"}),
		disabled: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "unloop_notifier_endpoint_disabled", Help: "1 for an endpoint that asked for no more messages.",
		}, []string{"endpoint"}),
		dead: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "unloop_notifier_dead_letters_total", Help: "Messages that were given up and stored as dead letters, by why.",
		}, []string{"endpoint", "reason"}),
		missed: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "unloop_notifier_events_missed_total", Help: "Events that the stream dropped before a notifier took them in.",
		}, []string{"endpoint"}),
	}
	if reg == nil {
		return m, nil
	}
	for _, c := range []prometheus.Collector{m.deliveries, m.seconds, m.owed, m.disabled, m.dead, m.missed} {
		if err := reg.Register(c); err != nil {
			return nil, fmt.Errorf("register metrics: %w", err)
		}
	}
	return m, nil
}

// reporter says how the deliveries to one endpoint go: a metric for each, a log line for
// each message that is given up, and one when the endpoint begins or ceases to fail.
type reporter struct {
	log     *slog.Logger
	results map[Result]prometheus.Counter
	seconds prometheus.Observer
	owed    prometheus.Gauge
	failing *atomic.Bool
}

// of returns the reporter of an endpoint.
func (m *Metrics) of(def *Endpoint, log *slog.Logger) reporter {
	r := reporter{
		log: log.With("endpoint", def.Name, "sink", def.Kind), results: map[Result]prometheus.Counter{}, failing: &atomic.Bool{},
		seconds: m.seconds.WithLabelValues(def.Name, def.Kind), owed: m.owed.WithLabelValues(def.Name),
	}
	for _, result := range results {
		r.results[result] = m.deliveries.WithLabelValues(def.Name, def.Kind, string(result))
		if result.dead() {
			m.dead.WithLabelValues(def.Name, string(result))
		}
	}
	m.missed.WithLabelValues(def.Name)
	m.disabled.WithLabelValues(def.Name)
	return r
}

// report reports an attempt at a message, by its number.
func (r *reporter) report(ctx context.Context, b *routing.Batch, a attempt, number int) {
	r.results[a.result].Inc()
	switch {
	case a.result == Delivered:
		if r.failing.Swap(false) {
			r.log.InfoContext(ctx, "endpoint takes messages again")
		}
	case a.result == Retried:
		if !r.failing.Swap(true) {
			r.log.WarnContext(ctx, "endpoint does not take messages, trying again", "error", a.err, "after", a.wait)
		}
	case a.result.dead():
		r.log.WarnContext(ctx, "message was given up", "result", string(a.result), "error", a.err, "message_id", b.ID, "event_type", b.Events[0].Type, "attempts", number)
	}
}
