package bundle

import (
	"maps"
	"slices"
	"strings"

	"github.com/unloop/unloop/schemas/policy"
)

// Limit is a compiled rule.
type Limit struct {
	*policy.Rule
	// Keys are the descriptors whose values are the key of the counter.
	Keys []policy.Descriptor
	// Conditions must all hold for the rule to apply.
	Conditions []Condition
}

// Condition is a descriptor and its required value.
type Condition struct {
	Descriptor policy.Descriptor
	Value      string
}

func (p *Policy) compileRules(spec *policy.Spec) {
	for i := range spec.Rules {
		limit := compileRule(&spec.Rules[i])
		p.Rules = append(p.Rules, limit)
		p.LimitKeys = append(p.LimitKeys, limit.Keys...)
	}
	slices.SortFunc(p.LimitKeys, func(a, b policy.Descriptor) int { return strings.Compare(a.String(), b.String()) })
	p.LimitKeys = slices.Compact(p.LimitKeys)
	p.Breaker = compileBreaker(spec, p.Rules)
	if spec.FallbackLimit != nil {
		limit := compileRule(spec.FallbackLimit)
		p.Fallback = &limit
	}
}

func compileRule(r *policy.Rule) Limit {
	limit := Limit{Rule: r}
	for _, key := range r.LimitKeys {
		limit.Keys = append(limit.Keys, descriptor(key))
	}
	for _, key := range slices.Sorted(maps.Keys(r.Match)) {
		limit.Conditions = append(limit.Conditions, Condition{descriptor(key), string(r.Match[key])})
	}
	return limit
}

// Metered reports whether the rule counts tokens or their price, which only requests to
// models have.
func (l *Limit) Metered() bool {
	return l.TokenBucketLLM != nil || l.CostBased != nil && l.CostBased.CostKey == "usd"
}

// Breaker is a compiled circuit breaker.
type Breaker struct {
	*policy.CircuitBreaker
	// Cost is the rule whose cost is counted; nil to count requests.
	Cost *Limit
	// Key is the descriptor by which requests are counted; zero to count all together.
	Key policy.Descriptor
}

func compileBreaker(spec *policy.Spec, rules []Limit) *Breaker {
	if spec.CircuitBreaker == nil || !spec.CircuitBreaker.Enabled {
		return nil
	}
	b := &Breaker{CircuitBreaker: spec.CircuitBreaker}
	if len(rules) > 0 {
		b.Cost, b.Key = &rules[0], rules[0].Keys[0]
	}
	return b
}
