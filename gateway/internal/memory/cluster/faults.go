package cluster

import (
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/unloop/unloop/schemas/kit/metric"
)

// Kinds of records, as metrics name them.
const (
	kindBundle   = "bundle"
	kindOverride = "override"
	kindKey      = "caller_hash_key"
)

var kinds = []string{kindBundle, kindOverride, kindKey}

// faults has the reasons why stored records are refused, by kind and key.
type faults struct {
	mu     sync.Mutex
	byKind map[string]map[string]error
}

// replace sets the faults of a kind, and returns those that are new.
func (f *faults) replace(kind string, now map[string]error) (fresh map[string]error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	fresh = maps.Clone(now)
	for key := range f.byKind[kind] {
		delete(fresh, key)
	}
	if f.byKind == nil {
		f.byKind = map[string]map[string]error{}
	}
	f.byKind[kind] = maps.Clone(now)
	return fresh
}

// Measure registers the metric of the operator records that are refused.
func (s *Shared) Measure(reg prometheus.Registerer) {
	for _, kind := range kinds {
		metric.GaugeFunc(prometheus.WrapRegistererWith(prometheus.Labels{"record": kind}, reg), "unloop_gateway_refused_records",
			"Stored operator records that are ignored because they are unreadable or lack a trusted seal, by kind: bundle, override or caller_hash_key.",
			func() float64 {
				s.faults.mu.Lock()
				defer s.faults.mu.Unlock()
				return float64(len(s.faults.byKind[kind]))
			})
	}
}

// Remarks describes, for operators, the stored records that are refused.
func (s *Shared) Remarks() (all []string) {
	s.faults.mu.Lock()
	defer s.faults.mu.Unlock()
	for _, kind := range kinds {
		keys := slices.Sorted(maps.Keys(s.faults.byKind[kind]))
		if len(keys) == 0 {
			continue
		}
		text := fmt.Sprintf("the stored record %s is not used: %s; the last good one stays in force", keys[0], s.faults.byKind[kind][keys[0]])
		if len(keys) > 1 {
			text += fmt.Sprintf(" (and %d more)", len(keys)-1)
		}
		all = append(all, text)
	}
	if s.alone.Load() {
		all = append(all, "callers are hashed with a key that only this gateway has, because no sealed key is stored: run `unloop nats init` as the operator")
	}
	return all
}
