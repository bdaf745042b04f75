package gateway

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/unloop/unloop/gateway/internal/memory/cluster"
	"github.com/unloop/unloop/schemas/kit/metric"
	"github.com/unloop/unloop/schemas/status"
)

// Describe adds the policies in force and the address to the gateway's status.
func (g *Gateway) Describe(s *status.Status) {
	s.Bundle, s.Listen, s.Traffic = g.stages.Policies.Describe(g.now()), g.Addr(), g.traffic.describe(g.now())
}

// Remarks returns which records of operators, and which bundle, are not in force.
func (g *Gateway) Remarks() []string {
	return append(g.stages.Policies.Remarks(), g.shared.Remarks()...)
}

// watchRecords counts the operators' records that are stored and not in force.
func (g *Gateway) watchRecords(reg prometheus.Registerer) {
	for _, kind := range cluster.Kinds() {
		metric.GaugeFunc(prometheus.WrapRegistererWith(prometheus.Labels{"record": kind}, reg), "unloop_gateway_refused_records",
			"Stored operator records that are ignored because they are unreadable or lack a trusted seal, by kind: bundle, override or caller_hash_key.",
			func() float64 { return float64(g.shared.Faulty(kind)) })
	}
}
