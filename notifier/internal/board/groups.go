package board

import (
	"cmp"
	"slices"
	"time"
)

// By is a property that loops are grouped by.
type By string

// groupings return the groups of a loop for each By. A loop with several tools is in several
// groups.
var groupings = map[By]func(l *Loop) []string{
	"policy":  func(l *Loop) []string { return []string{l.Policy} },
	"tool":    func(l *Loop) []string { return l.Tools() },
	"tenant":  func(l *Loop) []string { return []string{l.Tenant} },
	"project": func(l *Loop) []string { return []string{l.Project} },
	"caller":  func(l *Loop) []string { return []string{l.Caller} },
	"session": func(l *Loop) []string { return []string{l.Session} },
}

// Groupings returns what loops can be grouped by.
func Groupings() []By { return []By{"policy", "tool", "tenant", "project", "caller", "session"} }

// Group summarizes the loops with one value of a property; Name is "" for loops without a
// value.
type Group struct {
	Top
	FirstSeen time.Time `json:"first_seen"`
	LastSeen  time.Time `json:"last_seen"`
	// Worst is the strongest action on one of its loops.
	Worst string `json:"worst"`
}

// strengths lists the actions, strongest last.
var strengths = []string{"allow", "warn", "hint", "throttle", "reject", "break"}

// Groups groups loops, and sorts the groups by an order, greatest first.
func Groups(loops []Loop, by By, order Order) []Group {
	byName := map[string]*Group{}
	for i := range loops {
		names := groupings[by](&loops[i])
		if len(names) == 0 {
			names = []string{""}
		}
		for _, name := range names {
			g := byName[name]
			if g == nil {
				g = &Group{Top: Top{Name: name}, FirstSeen: loops[i].FirstSeen}
				byName[name] = g
			}
			g.take(&loops[i])
		}
	}
	all := make([]Group, 0, len(byName))
	for _, g := range byName {
		all = append(all, *g)
	}
	slices.SortFunc(all, func(a, b Group) int {
		return cmp.Or(a.compare(&b, order), cmp.Compare(b.Loops, a.Loops), cmp.Compare(a.Name, b.Name))
	})
	return all
}

func (g *Group) take(l *Loop) {
	g.add(l)
	if l.LastSeen.After(g.LastSeen) {
		g.LastSeen = l.LastSeen
	}
	if l.FirstSeen.Before(g.FirstSeen) {
		g.FirstSeen = l.FirstSeen
	}
	if slices.Index(strengths, l.Action) > slices.Index(strengths, g.Worst) {
		g.Worst = l.Action
	}
}

func (g *Group) compare(b *Group, order Order) int {
	switch order {
	case ByAge:
		return b.FirstSeen.Compare(g.FirstSeen)
	case BySeen:
		return b.LastSeen.Compare(g.LastSeen)
	case ByHits:
		return cmp.Compare(b.Hits, g.Hits)
	case ByStopped:
		return cmp.Compare(b.Saved.Requests, g.Saved.Requests)
	case BySaved:
		return cmp.Or(cmp.Compare(price(b.Saved.USD), price(g.Saved.USD)), cmp.Compare(b.Saved.InputTokens, g.Saved.InputTokens))
	}
	return 0
}
