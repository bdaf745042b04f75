package recorder

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/unloop/unloop/detector/internal/incident"
	"github.com/unloop/unloop/schemas/event"
	"github.com/unloop/unloop/schemas/kit/metric"
)

// savings counts what stopped requests would have cost, as the incidents estimate it.
type savings struct {
	requests, inputTokens, usd *prometheus.CounterVec
	tenants                    *tenants
}

func newSavings(reg prometheus.Registerer, t *tenants) *savings {
	counter := func(name, help string) *prometheus.CounterVec {
		return metric.Counters(reg, name, help, "policy", "detector")
	}
	return &savings{
		tenants:     t,
		requests:    counter("unloop_saved_requests_total", "Stopped requests, by policy and detector."),
		inputTokens: counter("unloop_saved_input_tokens_total", "Estimated input tokens of stopped requests."),
		usd:         counter("unloop_saved_usd_total", "Estimated cost of stopped requests in US dollars; models without a price count as 0."),
	}
}

// count adds by how much a write raised an incident's savings. before may be another
// incident, whose place the written one took.
func (s *savings) count(before, after incident.Record) {
	was := before.Saved
	if before.LoopID != after.LoopID {
		was = event.Saved{}
	}
	requests, usd := float64(after.Saved.Requests-was.Requests), dollars(after.Saved)-dollars(was)
	add := func(counter *prometheus.CounterVec, by float64) {
		if by > 0 {
			counter.WithLabelValues(after.Policy, after.Detector).Add(by)
		}
	}
	add(s.requests, requests)
	add(s.inputTokens, float64(after.Saved.InputTokens-was.InputTokens))
	add(s.usd, usd)
	s.tenants.saved(after, requests, usd)
}

func dollars(s event.Saved) float64 {
	if s.USD == nil {
		return 0
	}
	return *s.USD
}
