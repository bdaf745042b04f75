package gateway

import "github.com/unloop/unloop/schemas/status"

// Describe adds the policies in force and the address to the gateway's status.
func (g *Gateway) Describe(s *status.Status) {
	s.Bundle, s.Listen, s.Traffic = g.stages.Policies.Describe(g.now()), g.Addr(), g.traffic.Describe(g.now())
}

// Remarks names the operators' records, and the bundle, that are not in force.
func (g *Gateway) Remarks() []string {
	return append(g.stages.Policies.Remarks(), g.shared.Remarks()...)
}
