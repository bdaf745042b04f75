package gateway

import "github.com/unloop/unloop/schemas/status"

// Describe adds the policies in force to the gateway's status.
func (g *Gateway) Describe(s *status.Status) { s.Bundle = g.bundles.Describe(g.now()) }
