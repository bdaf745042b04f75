package bundle

import (
	"maps"
	"slices"
	"strings"

	"github.com/unloop/unloop/schemas/policy"
)

// Headers returns the names of the request headers that selectors, rules and kill
// switches use, in lower case and sorted.
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

// looksAt passes all descriptors of the rule to note.
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

// noteCost passes the descriptor that a request's cost comes from to note, if there is
// one.
func noteCost(source string, note func(policy.Descriptor)) {
	if d, err := policy.ParseDescriptor(source); err == nil {
		note(d)
	}
}
