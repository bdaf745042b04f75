package gateway

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/unloop/unloop/gateway/internal/wire/request"
	"github.com/unloop/unloop/schemas/kit/metric"
)

// metrics are the metrics of the stages in this package.
type metrics struct {
	requests, rejected, uninspected, rules, descriptorMissing *prometheus.CounterVec
}

func newMetrics(reg prometheus.Registerer) *metrics {
	return &metrics{
		requests:          metric.Counters(reg, "unloop_gateway_requests_total", "Requests by format and outcome: allow, an action, degraded, exempt, kill, abandoned, overloaded, fail-closed, or limit (rejected by a rule).", "format", "action"),
		rejected:          metric.Counters(reg, "unloop_gateway_rejected_total", "Requests stopped because of a finding, by client and by answer: the status of an error, or synthetic.", "client", "answer"),
		uninspected:       metric.Counters(reg, "unloop_gateway_uninspected_total", "Bodies on prompt paths that could not be read, by reason.", "reason"),
		rules:             metric.Counters(reg, "unloop_gateway_rules_total", "Requests by the verdict of a rule.", "policy", "rule", "mode", "action"),
		descriptorMissing: metric.Counters(reg, "unloop_gateway_descriptor_missing_total", "Rules skipped because a request lacks a descriptor.", "policy", "rule", "descriptor"),
	}
}

// count counts a request by its outcome.
func (g *Gateway) count(req *request.Request, label string) {
	g.metrics.requests.WithLabelValues(req.Provider.Name(), label).Inc()
	g.traffic.Note(g.now(), label)
}
