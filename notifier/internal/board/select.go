package board

import (
	"cmp"
	"slices"
	"strings"
	"time"
)

// Filter selects loops and puts them in order. Empty fields select all.
type Filter struct {
	State, Policy, Detector, Action, Tenant, Project, Caller, Session, Tool string
	// Words, in lower case, must all occur in the loop's names.
	Words []string
	// Since excludes loops that ended before it.
	Since time.Time
	// Order is one of Orders. The empty one is BySeen.
	Order Order
}

// Order is what loops are sorted by: open ones first, then the greatest value first.
type Order string

// The orders.
const (
	BySeen    Order = "last_seen"
	ByAge     Order = "first_seen"
	ByHits    Order = "hits"
	ByStopped Order = "stopped"
	BySaved   Order = "saved"
)

// Orders returns all orders.
func Orders() []Order { return []Order{BySeen, ByAge, ByHits, ByStopped, BySaved} }

// takes reports whether a loop is selected.
func (f *Filter) takes(l *Loop) bool {
	for _, pair := range [][2]string{
		{f.State, l.State}, {f.Policy, l.Policy}, {f.Detector, l.Detector}, {f.Action, l.Action}, {f.Tenant, l.Tenant},
		{f.Project, l.Project}, {f.Caller, l.Caller}, {f.Session, l.Session},
	} {
		if pair[0] != "" && pair[0] != pair[1] {
			return false
		}
	}
	if f.Tool != "" && !slices.Contains(l.Tools(), f.Tool) {
		return false
	}
	return (f.Since.IsZero() || l.State == Open || !l.Ends.Before(f.Since)) && l.has(f.Words)
}

// has reports whether all words occur in the names of the loop.
func (l *Loop) has(words []string) bool {
	if len(words) == 0 {
		return true
	}
	names := []string{l.LoopID, l.Title, l.Policy, l.Detector, l.Action, l.Tenant, l.Project, l.Caller, l.Session, l.Model, l.Fingerprint, l.RequestID}
	for i := range l.Findings {
		names = append(names, l.Findings[i].Detector, l.Findings[i].Rule, l.Findings[i].Tool)
	}
	text := strings.ToLower(strings.Join(names, "\n"))
	return !slices.ContainsFunc(words, func(w string) bool { return !strings.Contains(text, w) })
}

// sort puts loops in the filter's order.
func (f *Filter) sort(loops []Loop) {
	by := map[Order]func(a, b *Loop) int{
		ByAge:     func(a, b *Loop) int { return b.FirstSeen.Compare(a.FirstSeen) },
		ByHits:    func(a, b *Loop) int { return cmp.Compare(b.HitCount, a.HitCount) },
		ByStopped: func(a, b *Loop) int { return cmp.Compare(b.Saved.Requests, a.Saved.Requests) },
		BySaved: func(a, b *Loop) int {
			return cmp.Or(cmp.Compare(price(b.Saved.USD), price(a.Saved.USD)), cmp.Compare(b.Saved.InputTokens, a.Saved.InputTokens))
		},
	}[f.Order]
	if by == nil {
		return // they are sorted by LastSeen already
	}
	slices.SortStableFunc(loops, func(a, b Loop) int { return cmp.Or(cmp.Compare(a.State, b.State), by(&a, &b)) })
}

// price returns an amount, 0 if it is not known.
func price(usd *float64) float64 {
	if usd == nil {
		return 0
	}
	return *usd
}

// sortLoops sorts open loops first, then the last seen first.
func sortLoops(all []Loop) {
	slices.SortFunc(all, func(a, b Loop) int {
		return cmp.Or(cmp.Compare(a.State, b.State), b.LastSeen.Compare(a.LastSeen), cmp.Compare(a.LoopID, b.LoopID))
	})
}
