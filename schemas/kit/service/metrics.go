package service

import (
	"context"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/unloop/unloop/schemas/kit/metric"
	"github.com/unloop/unloop/schemas/kit/natskit"
)

// buildInfo returns the metric with the version, the revision and the version of Go.
func buildInfo() prometheus.Collector {
	b := BuildInfo()
	labels := prometheus.Labels{"version": b.Version, "revision": b.Revision, "go": b.Go}
	g := prometheus.NewGauge(prometheus.GaugeOpts{Name: "unloop_build_info", Help: "Build information; always 1.", ConstLabels: labels})
	g.Set(1)
	return g
}

// Attach connects a service to its NATS connection: readiness, metrics, status reports, and
// the checks of streams until the context ends.
func Attach(ctx context.Context, name string, svc Service, reg prometheus.Registerer, conn *natskit.Conn, layout natskit.Layout) {
	svc.Readiness().Also(conn.Ready)
	_ = newReporter(name, svc, conn).serve() // it errs only when the connection is closing
	labeled := prometheus.WrapRegistererWith(prometheus.Labels{"connection": name}, reg)
	metric.GaugeFunc(prometheus.WrapRegistererWith(prometheus.Labels{"service": name}, reg), "unloop_ready", "1 if the service is ready, as in /readyz.",
		func() float64 { return truth(svc.Readiness().Err() == nil) })
	metric.GaugeFunc(labeled, "unloop_nats_connected", "1 if a NATS server is connected and answers.", func() float64 { return truth(conn.Err() == nil) })
	metric.GaugeFunc(labeled, "unloop_nats_ready", "1 if NATS answers and the streams exist and accept writes.", func() float64 { return truth(conn.Ready() == nil) })
	metric.CounterFunc(labeled, "unloop_nats_reconnects_total", "Reconnects to a NATS server.", func() float64 { return float64(conn.Reconnects()) })
	metric.GaugeFunc(labeled, "unloop_nats_last_write_timestamp_seconds", "Time of the last write that NATS acknowledged; 0 if never.", func() float64 {
		if at := conn.LastWrite(); !at.IsZero() {
			return float64(at.UnixMilli()) / 1000
		}
		return 0
	})
	for _, action := range []natskit.Action{natskit.ActionPublish, natskit.ActionSubscribe} {
		metric.CounterFunc(prometheus.WrapRegistererWith(prometheus.Labels{"action": string(action)}, labeled), "unloop_nats_refused_total",
			"Messages and subscriptions that the NATS server refused for lack of permissions.", func() float64 { return float64(conn.Refused(action)) })
	}
	go conn.Tend(ctx, LayoutOf(svc, layout))
}

func truth(b bool) float64 {
	if b {
		return 1
	}
	return 0
}
