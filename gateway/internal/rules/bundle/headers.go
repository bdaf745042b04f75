package bundle

import (
	"maps"
	"slices"
	"strings"

	"github.com/unloop/unloop/schemas/policy"
)

// Headers returns the sorted names, in lower case, of the request headers that selectors,
// rules and kill switches use.
func (s *Set) Headers() []string {
	names := map[string]bool{}
	note := func(d policy.Descriptor) {
		if d.Source == "header" {
			names[d.Name] = true
		}
	}
	for i := range s.KillSwitches {
		note(s.KillSwitches[i].Scope)
	}
	for _, p := range s.policies {
		for _, h := range p.selector.headers {
			names[strings.ToLower(h.name)] = true
		}
		for i := range p.Rules {
			p.Rules[i].looksAt(note)
		}
		if p.Fallback != nil {
			p.Fallback.looksAt(note)
		}
	}
	return slices.Sorted(maps.Keys(names))
}

// looksAt calls note with all descriptors of the rule.
func (l *Limit) looksAt(note func(policy.Descriptor)) {
	for _, d := range l.Keys {
		note(d)
	}
	for _, c := range l.Conditions {
		note(c.Descriptor)
	}
	switch {
	case l.TokenBucket != nil:
		noteCost(l.TokenBucket.CostSource, note)
	case l.CostBased != nil:
		noteCost(l.CostBased.CostKey, note)
	case l.TokenBucketLLM != nil && l.TokenBucketLLM.TokenSource.Estimator == "header_hint":
		note(policy.Descriptor{Source: "header", Name: "x-token-estimate"})
	}
}

// noteCost calls note with the descriptor that is the source of a cost, if there is one.
func noteCost(source string, note func(policy.Descriptor)) {
	if d, err := policy.ParseDescriptor(source); err == nil {
		note(d)
	}
}
