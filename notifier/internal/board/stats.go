package board

import (
	"cmp"
	"slices"
	"time"
)

// maxTop bounds the names of a list in Stats.
const maxTop = 10

// Stats summarizes loops.
type Stats struct {
	Since time.Time `json:"since"`
	Until time.Time `json:"until"`
	// Open counts the open loops, Detected those that began in this time, Enforced those
	// of them that are not only watched.
	Open     int   `json:"open"`
	Detected int   `json:"detected"`
	Enforced int   `json:"enforced"`
	Hits     int   `json:"hits"`
	Saved    Saved `json:"saved"`

	Policies  []Top `json:"policies"`
	Callers   []Top `json:"callers"`
	Detectors []Top `json:"detectors"`
	Tenants   []Top `json:"tenants"`
}

// Saved is an estimate of what stopped requests would have cost.
type Saved struct {
	Requests    int      `json:"requests"`
	InputTokens int      `json:"input_tokens"`
	USD         *float64 `json:"usd,omitempty"`
	// Unpriced counts the requests for which no price is known; USD leaves them out.
	Unpriced int `json:"unpriced"`
}

// Top is a name with the loops that it has.
type Top struct {
	Name  string `json:"name"`
	Loops int    `json:"loops"`
	Open  int    `json:"open"`
	Hits  int    `json:"hits"`
	Saved Saved  `json:"saved"`
}

func (s *Saved) add(l *Loop) {
	s.Requests += l.Saved.Requests
	s.InputTokens += l.Saved.InputTokens
	if l.Saved.USD == nil {
		s.Unpriced += l.Saved.Requests
		return
	}
	if s.USD == nil {
		s.USD = new(float64)
	}
	*s.USD += *l.Saved.USD
}

func (t *Top) add(l *Loop) {
	t.Loops++
	t.Hits += l.Hits
	if l.State == Open {
		t.Open++
	}
	t.Saved.add(l)
}

// Summarize returns the summary of loops since a time.
func Summarize(loops []Loop, since, now time.Time) Stats {
	s := Stats{Since: since, Until: now}
	var policies, callers, detectors, tenants tally
	for i := range loops {
		l := &loops[i]
		if l.State == Open {
			s.Open++
		}
		if !l.FirstSeen.Before(since) {
			s.Detected++
			if l.Mode != "shadow" {
				s.Enforced++
			}
		}
		s.Hits += l.Hits
		s.Saved.add(l)
		policies.add(l.Policy, l)
		callers.add(l.Caller, l)
		detectors.add(l.Detector, l)
		tenants.add(l.Tenant, l)
	}
	s.Policies, s.Callers, s.Detectors, s.Tenants = policies.top(), callers.top(), detectors.top(), tenants.top()
	return s
}

// tally counts loops by a name. Loops without the name do not count.
type tally map[string]*Top

func (t *tally) add(name string, l *Loop) {
	if name == "" {
		return
	}
	if *t == nil {
		*t = tally{}
	}
	one := (*t)[name]
	if one == nil {
		one = &Top{Name: name}
		(*t)[name] = one
	}
	one.add(l)
}

// top returns the names with the most stopped requests, then the most loops.
func (t tally) top() []Top {
	all := make([]Top, 0, len(t))
	for _, one := range t {
		all = append(all, *one)
	}
	slices.SortFunc(all, func(a, b Top) int {
		return cmp.Or(cmp.Compare(b.Saved.Requests, a.Saved.Requests), cmp.Compare(b.Loops, a.Loops), cmp.Compare(b.Hits, a.Hits), cmp.Compare(a.Name, b.Name))
	})
	return all[:min(len(all), maxTop)]
}
