package gateway

import "github.com/prometheus/client_golang/prometheus"

// metrics are those of the stages in this package.
type metrics struct {
	requests, rejected, uninspected, rules, descriptorMissing *prometheus.CounterVec
}

func newMetrics(reg prometheus.Registerer) *metrics {
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		c := prometheus.NewCounterVec(prometheus.CounterOpts{Name: "unloop_gateway_" + name, Help: help}, labels)
		reg.MustRegister(c)
		return c
	}
	return &metrics{
		requests:          counter("requests_total", "Requests by format and outcome: allow, an action, degraded, exempt, kill, abandoned, overloaded or fail-closed; limit is a rule's reject.", "format", "action"),
		rejected:          counter("rejected_total", "Requests that were stopped because of a finding, by the client that sent them and what it got: the status of an error, or synthetic.", "client", "answer"),
		uninspected:       counter("uninspected_total", "Bodies in a prompt's place that could not be read, by reason.", "reason"),
		rules:             counter("rules_total", "Requests by the verdict of a rule.", "policy", "rule", "mode", "action"),
		descriptorMissing: counter("descriptor_missing_total", "Rules that were skipped because a request lacks a descriptor.", "policy", "rule", "descriptor"),
	}
}
