package gateway

import "github.com/unloop/unloop/schemas/status"

// Describe adds the policies in force and the address to the gateway's status.
func (g *Gateway) Describe(s *status.Status) {
	s.Bundle, s.Listen = g.bundles.Describe(g.now()), g.Addr()
}
