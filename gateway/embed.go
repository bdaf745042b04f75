package gateway

import (
	"context"

	"github.com/unloop/unloop/schemas/checkpb"
)

// Check asks the detectors about what did not come over HTTP, in the same way
// as about requests that did: in batches with them, and from memory while a
// block stands. Its errors say why there is no decision.
func (g *Gateway) Check(ctx context.Context, check *checkpb.Check) (*checkpb.Decision, error) {
	decision, _, err := g.checker.Check(ctx, check)
	return decision, err
}
