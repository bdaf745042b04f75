package evidence

import (
	"github.com/unloop/unloop/gateway/internal/bundle"
	"github.com/unloop/unloop/schemas/checkpb"
	"github.com/unloop/unloop/schemas/fingerprint"
	"github.com/unloop/unloop/schemas/policy"
)

// breakerDomain is the domain of the hashes that name the states of circuit
// breakers.
const breakerDomain = "unloop/breaker/1"

// breakerRule stands for a circuit breaker of requests among the rules.
var breakerRule = &bundle.Limit{Rule: &policy.Rule{Name: checkpb.BreakerRule, Algorithm: checkpb.BreakerRule}}

// breaker returns a policy's circuit breaker as a limit. The request costs what it costs
// in the policy's first rule, and nothing where that rule counts tokens and the request
// asks no model.
func (m *maker) breaker(p *bundle.Policy) Limit {
	l := Limit{Rule: breakerRule, Wire: &checkpb.Limit{Policy: p.ID, Key: m.breakerKey(p.Breaker), Shadow: m.shadow(p), Cost: 1}}
	if rule := p.Breaker.Cost; rule != nil {
		l.Rule, l.Wire.Cost = rule, 0
		if !rule.Metered() || m.AsksModel() {
			m.limit(&l)
		}
	}
	w := l.Wire
	w.Rule, w.Bucket, w.Budget, w.Oversized, l.Oversized = checkpb.BreakerRule, nil, nil, false, ""
	w.Breaker = &checkpb.Breaker{Threshold: p.Breaker.SpendRatePerMinute, ResetSeconds: p.Breaker.ResetSeconds()}
	return l
}

// breakerKey names the breaker for the value of its descriptor; requests without a value
// share one breaker.
func (m *maker) breakerKey(b *bundle.Breaker) []byte {
	f := fingerprint.New(breakerDomain)
	if b.Key != (policy.Descriptor{}) {
		f.String(b.Key.String()).String(m.descriptor(b.Key))
	}
	sum := f.Sum()
	return sum[:]
}
