package notifier

import (
	"cmp"
	"slices"
	"time"

	"github.com/unloop/unloop/notifier/internal/api"
	"github.com/unloop/unloop/notifier/internal/deliver"
)

// endpoints returns the endpoints of the fleet as the dashboard shows them, sorted by name.
func (f *fleet) endpoints() []api.Endpoint {
	var all []api.Endpoint
	for _, s := range f.pipeline.Endpoints() {
		all = append(all, shownEndpoint(s, time.Now()))
	}
	slices.SortFunc(all, func(a, b api.Endpoint) int { return cmp.Compare(a.Name, b.Name) })
	return all
}

func shownEndpoint(s deliver.Summary, now time.Time) api.Endpoint {
	e := api.Endpoint{Name: s.Name, Kind: s.Kind, State: api.Active}
	switch {
	case !s.Disabled.IsZero():
		e.State, e.Reason = api.Disabled, s.Reason
	case now.Before(s.Paused):
		e.State, e.Until = api.Paused, s.Paused
	}
	return e
}
