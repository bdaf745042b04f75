package board

import (
	"cmp"
	"slices"
	"time"

	"github.com/unloop/unloop/schemas/event"
)

// maxTop bounds the names of a list in Stats.
const maxTop = 10

// Stats summarizes loops.
type Stats struct {
	Since time.Time `json:"since"`
	Until time.Time `json:"until"`
	// Open counts the open loops, Detected those that began in this time, and Enforced those
	// of the latter that are not in shadow mode.
	Open     int   `json:"open"`
	Detected int   `json:"detected"`
	Enforced int   `json:"enforced"`
	Hits     int   `json:"hits"`
	Saved    Saved `json:"saved"`

	// AfterHints counts what became of loops after a hint to the model.
	AfterHints AfterHints `json:"after_hints"`

	Policies  []Top `json:"policies"`
	Tools     []Top `json:"tools"`
	Callers   []Top `json:"callers"`
	Detectors []Top `json:"detectors"`
	Tenants   []Top `json:"tenants"`
}

// Saved is an estimate of what stopped requests would have cost.
type Saved struct {
	Requests    int      `json:"requests"`
	InputTokens int      `json:"input_tokens"`
	USD         *float64 `json:"usd,omitempty"`
	// Unpriced counts the requests without a known price, which USD leaves out.
	Unpriced int `json:"unpriced"`
}

// Top counts the loops of a name.
type Top struct {
	Name  string `json:"name"`
	Loops int    `json:"loops"`
	Open  int    `json:"open"`
	Hits  int    `json:"hits"`
	Saved Saved  `json:"saved"`
}

func (s *Saved) add(l *Loop) { s.grow(&event.Saved{}, &l.Saved) }

// grow adds the difference between two states of a loop.
func (s *Saved) grow(before, now *event.Saved) {
	requests := now.Requests - before.Requests
	s.Requests += requests
	s.InputTokens += now.InputTokens - before.InputTokens
	if now.USD == nil {
		s.Unpriced += requests
		return
	}
	if s.USD == nil {
		s.USD = new(float64)
	}
	*s.USD += *now.USD - price(before.USD)
}

// AfterHints counts loops with a hint: those that ended without being stopped, those that are
// open and not stopped, and those that were stopped later.
type AfterHints struct {
	Recovered int `json:"recovered"`
	Open      int `json:"open"`
	Stopped   int `json:"stopped"`
}

func (a *AfterHints) add(l *Loop) {
	const hint = "hint"
	switch {
	case l.Mode == Shadow:
	case l.Action != hint:
		if slices.ContainsFunc(l.course, func(p Point) bool { return p.Action == hint }) {
			a.Stopped++
		}
	case l.State == Open:
		a.Open++
	default:
		a.Recovered++
	}
}

func (t *Top) add(l *Loop) {
	t.Loops++
	t.Hits += l.HitCount
	if l.State == Open {
		t.Open++
	}
	t.Saved.add(l)
}

// Summarize returns the summary of loops since a time.
func Summarize(loops []Loop, since, now time.Time) Stats {
	s := Stats{Since: since, Until: now}
	var policies, callers, detectors, tenants, tools tally
	for i := range loops {
		l := &loops[i]
		if l.State == Open {
			s.Open++
		}
		if !l.FirstSeen.Before(since) {
			s.Detected++
			if l.Mode != Shadow {
				s.Enforced++
			}
		}
		s.Hits += l.HitCount
		s.Saved.add(l)
		s.AfterHints.add(l)
		for _, name := range l.Tools() {
			tools.add(name, l)
		}
		policies.add(l.Policy, l)
		callers.add(l.Caller, l)
		detectors.add(l.Detector, l)
		tenants.add(l.Tenant, l)
	}
	s.Policies, s.Callers, s.Detectors, s.Tenants, s.Tools = policies.top(), callers.top(), detectors.top(), tenants.top(), tools.top()
	return s
}

// tally counts loops by name. It ignores loops without one.
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
