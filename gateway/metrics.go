package gateway

import "github.com/prometheus/client_golang/prometheus"

// metrics are those of the stages in this package.
type metrics struct {
	requests, checks, uninspected *prometheus.CounterVec
	checkSeconds                  prometheus.Histogram
	rules, descriptorMissing      *prometheus.CounterVec
	// spells tells which degraded checks are logged.
	spells spells
}

func newMetrics(reg prometheus.Registerer) *metrics {
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		c := prometheus.NewCounterVec(prometheus.CounterOpts{Name: "unloop_gateway_" + name, Help: help}, labels)
		reg.MustRegister(c)
		return c
	}
	m := &metrics{
		requests:    counter("requests_total", "Requests by format and what was done with them: allow, an action, degraded, exempt, kill, abandoned or fail-closed; limit is a rule's reject.", "format", "action"),
		checks:      counter("checks_total", "Checks by how they ended: decided, local (from memory), abandoned, or why there was no decision.", "result"),
		uninspected: counter("uninspected_total", "Bodies in a prompt's place that could not be read, by reason.", "reason"),
		checkSeconds: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "unloop_gateway_check_seconds", Help: "Time spent on the decision.",
			Buckets: []float64{.0001, .00025, .0005, .001, .0025, .005, .01, .025, .05, .1, .25},
		}),
	}
	m.rules = counter("rules_total", "Requests by what a rule said of them.", "policy", "rule", "mode", "action")
	m.descriptorMissing = counter("descriptor_missing_total", "Rules that were skipped because a request lacks a descriptor.", "policy", "rule", "descriptor")
	reg.MustRegister(m.checkSeconds)
	return m
}
