package board

import (
	"cmp"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/unloop/unloop/schemas/status"
)

const (
	// maxParts bounds the known parts.
	maxParts = 500
	// forgetAfter is how long a part is shown after its last answer.
	forgetAfter = 2 * time.Minute
)

// The states of a running part.
const (
	Ready    = "ready"
	NotReady = "not_ready"
	Silent   = "silent"
)

// Running is a running part of the system.
type Running struct {
	status.Status
	State string `json:"state"`
	// Heard is the time of the part's last answer.
	Heard time.Time `json:"heard"`
}

// Fleet holds the parts that answer, and for a while those that stopped answering. The zero
// value is empty.
type Fleet struct {
	mu   sync.Mutex
	byID map[string]Running
}

// Heard records the replies to one request.
func (f *Fleet) Heard(replies []status.Status, now time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.byID == nil {
		f.byID = map[string]Running{}
	}
	for id, r := range f.byID {
		r.State = Silent
		f.byID[id] = r
		if now.Sub(r.Heard) > forgetAfter {
			delete(f.byID, id)
		}
	}
	for i := range replies {
		s := replies[i]
		if _, known := f.byID[s.ID]; !known && len(f.byID) >= maxParts || s.ID == "" {
			continue
		}
		state := NotReady
		if s.Ready {
			state = Ready
		}
		f.byID[s.ID] = Running{Status: s, State: state, Heard: now}
	}
}

// All returns the parts sorted by service and age, oldest first.
func (f *Fleet) All() []Running {
	f.mu.Lock()
	defer f.mu.Unlock()
	all := slices.AppendSeq([]Running{}, maps.Values(f.byID))
	slices.SortFunc(all, func(a, b Running) int {
		return cmp.Or(cmp.Compare(a.Service, b.Service), a.Started.Compare(b.Started), cmp.Compare(a.ID, b.ID))
	})
	return all
}

// InForce is a bundle with the gateways that use it.
type InForce struct {
	status.Bundle
	Gateways []Gateway `json:"gateways"`
}

// Gateway names a gateway.
type Gateway struct {
	ID   string `json:"id"`
	Host string `json:"host"`
}

// Bundles returns the bundles that answering gateways use, sorted by version.
func Bundles(parts []Running) []InForce {
	all := []InForce{}
	for i := range parts {
		b := parts[i].Bundle
		if b == nil || parts[i].State == Silent {
			continue
		}
		at := slices.IndexFunc(all, func(in InForce) bool { return in.Version == b.Version && in.Source == b.Source })
		if at < 0 {
			all = append(all, InForce{Bundle: *b})
			at = len(all) - 1
		}
		all[at].Gateways = append(all[at].Gateways, Gateway{parts[i].ID, parts[i].Host})
	}
	slices.SortFunc(all, func(a, b InForce) int {
		return cmp.Or(cmp.Compare(a.Version, b.Version), cmp.Compare(a.Source, b.Source))
	})
	return all
}
