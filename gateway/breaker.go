package gateway

import (
	"github.com/unloop/unloop/gateway/internal/bundle"
	"github.com/unloop/unloop/gateway/internal/evidence"
	"github.com/unloop/unloop/schemas/checkpb"
	"github.com/unloop/unloop/schemas/fingerprint"
	"github.com/unloop/unloop/schemas/policy"
)

// breakerDomain is the domain of the hashes that name the states of circuit
// breakers.
const breakerDomain = "unloop/breaker/1"

// breakerRule stands for a circuit breaker of requests among the rules.
var breakerRule = &bundle.Limit{Rule: &policy.Rule{Name: checkpb.BreakerRule, Algorithm: checkpb.BreakerRule}}

// breaker is a policy's circuit breaker as the request meets it: it takes what the
// policy's first rule would, and nothing where that rule counts tokens and the
// request asks no model.
func (x *exchange) breaker(p *bundle.Policy, shadow bool) evidence.Limit {
	a := evidence.Limit{Rule: breakerRule, Wire: &checkpb.Limit{Policy: p.ID, Key: x.breakerKey(p.Breaker), Shadow: shadow, Cost: 1}}
	if rule := p.Breaker.Cost; rule != nil {
		a.Rule, a.Wire.Cost = rule, 0
		if !rule.Metered() || x.asksModel() {
			x.limit(&a)
		}
	}
	w := a.Wire
	w.Rule, w.Bucket, w.Budget, w.Oversized, a.Oversized = checkpb.BreakerRule, nil, nil, false, ""
	w.Breaker = &checkpb.Breaker{Threshold: p.Breaker.SpendRatePerMinute, ResetSeconds: p.Breaker.ResetSeconds()}
	return a
}

// breakerKey names the breaker for the value of its descriptor; requests without
// one share it.
func (x *exchange) breakerKey(b *bundle.Breaker) []byte {
	f := fingerprint.New(breakerDomain)
	if b.Key != (policy.Descriptor{}) {
		f.String(b.Key.String()).String(x.descriptor(b.Key))
	}
	sum := f.Sum()
	return sum[:]
}
