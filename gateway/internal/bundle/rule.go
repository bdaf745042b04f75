package bundle

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/unloop/unloop/schemas/policy"
)

// Limit is a compiled rule.
type Limit struct {
	*policy.Rule
	// Keys are the descriptors whose values name the counter.
	Keys []policy.Descriptor
	// Conditions must all hold for the rule to apply.
	Conditions []Condition
}

// Condition is a descriptor and the value it must have.
type Condition struct {
	Descriptor policy.Descriptor
	Value      string
}

func (p *Policy) compileRules(spec *policy.Spec) error {
	for i := range spec.Rules {
		limit, err := compileRule(&spec.Rules[i])
		if err != nil {
			return err
		}
		p.Rules = append(p.Rules, limit)
		p.LimitKeys = append(p.LimitKeys, limit.Keys...)
	}
	slices.SortFunc(p.LimitKeys, func(a, b policy.Descriptor) int { return strings.Compare(a.String(), b.String()) })
	p.LimitKeys = slices.Compact(p.LimitKeys)
	p.Breaker = compileBreaker(spec, p.Rules)
	if spec.FallbackLimit == nil {
		return nil
	}
	limit, err := compileRule(spec.FallbackLimit)
	p.Fallback = &limit
	return err
}

// Breaker is a compiled circuit breaker.
type Breaker struct {
	*policy.CircuitBreaker
	// Cost is the rule whose cost is counted; nil to count requests.
	Cost *Limit
	// Key tells requests apart; the zero value counts all together.
	Key policy.Descriptor
}

func compileBreaker(spec *policy.Spec, rules []Limit) *Breaker {
	if spec.CircuitBreaker == nil || !spec.CircuitBreaker.Enabled {
		return nil
	}
	b := &Breaker{CircuitBreaker: spec.CircuitBreaker}
	if len(rules) > 0 {
		b.Cost = &rules[0]
		b.Key = rules[0].Keys[0]
	}
	return b
}

func compileRule(r *policy.Rule) (Limit, error) {
	limit := Limit{Rule: r}
	for _, key := range r.LimitKeys {
		d, err := policy.ParseDescriptor(key)
		if err != nil {
			return limit, fmt.Errorf("rule %q: %w", r.Name, err)
		}
		limit.Keys = append(limit.Keys, d)
	}
	for _, key := range slices.Sorted(maps.Keys(r.Match)) {
		d, err := policy.ParseDescriptor(key)
		if err != nil {
			return limit, fmt.Errorf("rule %q: %w", r.Name, err)
		}
		limit.Conditions = append(limit.Conditions, Condition{d, string(r.Match[key])})
	}
	return limit, nil
}

// Metered reports whether the rule counts model tokens or their price, which only
// requests to models have.
func (l *Limit) Metered() bool {
	return l.TokenBucketLLM != nil || l.CostBased != nil && l.CostBased.CostKey == "usd"
}
