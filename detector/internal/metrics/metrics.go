// Package metrics holds the counters of a detector that more than one of its packages
// counts. It knows what is counted, not when.
package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/unloop/unloop/schemas/checkpb"
	"github.com/unloop/unloop/schemas/event"
	"github.com/unloop/unloop/schemas/kit/metric"
)

// Metrics are the counters. Make them with New.
type Metrics struct {
	Malformed, Overloaded, Unanswered, Uncounted, Unrecorded, HandedOver, Stalled, Unbudgeted prometheus.Counter

	checks, findings *prometheus.CounterVec
}

// New returns counters that are registered with reg.
func New(reg prometheus.Registerer) *Metrics {
	add := func(name, help string) prometheus.Counter {
		return metric.Counter(reg, "unloop_detector_"+name+"_total", help)
	}
	return &Metrics{
		Malformed:  add("malformed", "Messages that are not a valid check, release or outcome."),
		Overloaded: add("overloaded", "Messages refused because too many were in flight."),
		Unanswered: add("unanswered", "Answers and broadcasts that could not be sent."),
		Uncounted:  add("uncounted", "Checks and outcomes that could not be counted in time."),
		Unrecorded: add("unrecorded", "Findings whose incident could not be stored."),
		HandedOver: add("handed_over", "Counts handed over to the detector that writes their key."),
		Stalled:    add("stalled", "Messages refused because they arrived while the detector was frozen."),
		Unbudgeted: add("unbudgeted", "Requests that a new budget or circuit breaker did not remember, because LOOP_BUDGETS is full or their caller has half of it. Those that are there stay."),
		checks:     metric.Counters(reg, "unloop_detector_checks_total", "Checks decided, by the strongest action.", "action"),
		findings:   metric.Counters(reg, "unloop_detector_findings_total", "Findings by policy, detector, mode and action.", "policy", "detector", "mode", "action"),
	}
}

// Checked counts a decided check by its action.
func (m *Metrics) Checked(action checkpb.Action) { m.checks.WithLabelValues(action.Label()).Inc() }

// Found counts the findings of a decision.
func (m *Metrics) Found(findings []*checkpb.Finding) {
	for _, f := range findings {
		mode := event.ModeEnforce
		if f.GetShadow() {
			mode = event.ModeShadow
		}
		m.findings.WithLabelValues(f.GetPolicy(), f.GetDetector(), mode, f.GetAction().Label()).Inc()
	}
}
