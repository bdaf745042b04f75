package deliver

import (
	"context"
	"log/slog"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/unloop/unloop/notifier/internal/routing"
	"github.com/unloop/unloop/schemas/kit/metric"
)

// metrics are the metrics of deliveries by endpoint.
type metrics struct {
	deliveries   *prometheus.CounterVec
	seconds      *prometheus.HistogramVec
	owed, share  *prometheus.GaugeVec
	disabled     *prometheus.GaugeVec
	dead, missed *prometheus.CounterVec
}

func newMetrics(reg prometheus.Registerer) *metrics {
	return &metrics{
		deliveries: metric.Counters(reg, "unloop_notifier_deliveries_total", "Delivery attempts by result; duplicate means not sent because the delivery log shows that the endpoint already accepted the message.", "endpoint", "sink", "result"),
		seconds:    metric.Histograms(reg, "unloop_notifier_delivery_seconds", "Duration of one delivery attempt.", prometheus.ExponentialBuckets(0.005, 2, 13), "endpoint", "sink"),
		owed:       metric.Gauges(reg, "unloop_notifier_owed", "Groups of loops with a message due to the endpoint.", "endpoint"),
		share:      metric.Gauges(reg, "unloop_notifier_share_taken", "Used share of the endpoint's part of LOOP_NOTIFICATIONS. From 1 on, new messages become dead letters, and none is retried.", "endpoint"),
		disabled:   metric.Gauges(reg, "unloop_notifier_endpoint_disabled", "1 if the endpoint asked for no more messages.", "endpoint"),
		dead:       metric.Counters(reg, "unloop_notifier_dead_letters_total", "Messages that were given up and stored as dead letters, by reason.", "endpoint", "reason"),
		missed:     metric.Counters(reg, "unloop_notifier_events_missed_total", "Events that the stream dropped before a notifier read them.", "endpoint"),
	}
}

// reporter reports the deliveries to one endpoint: a metric for each, a log line for each
// message that is given up, and one when the endpoint starts or stops failing.
type reporter struct {
	log     *slog.Logger
	results map[Result]prometheus.Counter
	seconds prometheus.Observer
	owed    prometheus.Gauge
	share   prometheus.Gauge
	failing *atomic.Bool
}

// of returns the reporter of an endpoint.
func (m *metrics) of(def *Endpoint, log *slog.Logger) reporter {
	r := reporter{
		log: log.With("endpoint", def.Name, "sink", def.Kind), results: map[Result]prometheus.Counter{}, failing: &atomic.Bool{},
		seconds: m.seconds.WithLabelValues(def.Name, def.Kind), owed: m.owed.WithLabelValues(def.Name), share: m.share.WithLabelValues(def.Name),
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

// report reports an attempt at a message, with its number.
func (r *reporter) report(ctx context.Context, b *routing.Batch, a attempt, number int) {
	r.results[a.result].Inc()
	switch {
	case a.result == Delivered:
		if r.failing.Swap(false) {
			r.log.InfoContext(ctx, "endpoint accepts messages again")
		}
	case a.result == Retried:
		if !r.failing.Swap(true) {
			r.log.WarnContext(ctx, "endpoint does not accept messages, retrying", "error", a.err, "after", a.wait)
		}
	case a.result.dead():
		r.log.WarnContext(ctx, "message was given up", "result", string(a.result), "error", a.err, "message_id", b.ID, "event_type", b.Events[0].Type, "attempts", number)
	}
}
