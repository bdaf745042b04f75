package routing

import (
	"slices"
	"strings"
	"time"

	"github.com/unloop/unloop/schemas/event"
	"github.com/unloop/unloop/schemas/match"
)

// Route selects events of an endpoint and says how they become messages.
type Route struct {
	// Name is unique among the routes of a configuration. Groups are stored under it.
	Name  string
	Match match.Matchers
	// Events lists the types that cause a message; nil means loop.detected and
	// loop.resolved. Events of other types only update their loop.
	Events []event.Type
	// GroupBy lists the fields of package match whose values the loops of a group share.
	// Without any, each loop is a group of its own.
	GroupBy []string
	// GroupWait is the time from the first event of a group to its first message.
	GroupWait time.Duration
	// GroupInterval is the shortest time between messages of a group.
	GroupInterval time.Duration
	// RepeatInterval is the time after which the message about open loops is sent again;
	// 0 means never.
	RepeatInterval time.Duration
}

// Find returns the first route that matches an event, nil if none does.
func Find(routes []Route, e *event.Event) *Route {
	i := slices.IndexFunc(routes, func(r Route) bool { return r.Match.Match(e) })
	if i < 0 {
		return nil
	}
	return &routes[i]
}

// Key returns the key of the group that an event belongs to: the loop's id, or FIELD=VALUE
// of each field in GroupBy.
func (r *Route) Key(e *event.Event) string {
	if len(r.GroupBy) == 0 {
		return e.Data.LoopID
	}
	parts := make([]string, len(r.GroupBy))
	for i, field := range r.GroupBy {
		parts[i] = field + "=" + strings.NewReplacer(`\`, `\\`, ",", `\,`).Replace(match.Value(e, field))
	}
	return strings.Join(parts, ",")
}

// Wants reports whether an event of a type causes a message.
func (r *Route) Wants(t event.Type) bool {
	if r.Events == nil {
		return t != event.Ongoing
	}
	return slices.Contains(r.Events, t)
}
