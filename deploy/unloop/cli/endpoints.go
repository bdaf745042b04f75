package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/unloop/unloop/deploy/unloop/terminal"
	"github.com/unloop/unloop/schemas"
	"github.com/unloop/unloop/schemas/delivery"
	"github.com/unloop/unloop/schemas/kit/natskit"
	"github.com/unloop/unloop/schemas/kit/operator"
)

type endpointsCmd struct {
	List   endpointsListCmd   `cmd:"" default:"withargs" help:"List endpoints, including disabled ones."`
	Enable endpointsEnableCmd `cmd:"" help:"Enable an endpoint that was disabled because it answered 410."`
}

// endpointStatus is the state of an endpoint, as JSON.
type endpointStatus struct {
	Name string `json:"name"`
	delivery.Endpoint
	// Waiting is the number of events that no notifier has taken for the endpoint yet.
	Waiting uint64 `json:"waiting"`
	// Newest is the time when a notifier last took an event for it.
	Newest time.Time `json:"newest,omitzero"`
}

// status says whether messages are sent.
func (s *endpointStatus) status(now time.Time) terminal.Cell {
	switch {
	case !s.Disabled.IsZero():
		return terminal.Cell{Text: "disabled", Style: terminal.Red}
	case now.Before(s.Paused):
		return terminal.Cell{Text: "paused", Style: terminal.Yellow}
	default:
		return terminal.Cell{Text: "active"}
	}
}

type endpointsListCmd struct{ listing }

// Run lists the endpoints that notifiers have used.
func (c *endpointsListCmd) Run(ctx context.Context, std streams) error {
	none := "No notifier has endpoints: give it --webhook URL or --notify FILE."
	return list[endpointStatus]{endpointList, none, endpointTable}.run(ctx, &c.listing, std)
}

func endpointTable(all []endpointStatus, now time.Time) *terminal.Table {
	t := terminal.NewTable(terminal.Column{Name: "ENDPOINT", MinWidth: 8}, terminal.Column{Name: "STATUS"}, terminal.Column{Name: "SINCE", Rank: 2},
		terminal.Column{Name: "WAITING"}, terminal.Column{Name: "NEWEST EVENT", Rank: 3}, terminal.Column{Name: "REASON", Rank: 1, MinWidth: 8})
	for i := range all {
		s := &all[i]
		since, newest := "", ""
		if !s.Disabled.IsZero() {
			since = terminal.Moment(s.Disabled, now)
		}
		if !s.Newest.IsZero() {
			newest = terminal.Moment(s.Newest, now)
		}
		t.Row(s.Name, s.status(now), since, fmt.Sprint(s.Waiting), newest, s.Reason)
	}
	return t
}

// endpointList returns the endpoints that have a consumer of events or a stored state,
// sorted by name.
func endpointList(ctx context.Context, js jetstream.JetStream) ([]endpointStatus, error) {
	all, err := endpointStates(ctx, js)
	if err != nil {
		return nil, err
	}
	stream, err := js.Stream(ctx, schemas.StreamEvents)
	if err != nil {
		return nil, fmt.Errorf("open stream %s: %w", schemas.StreamEvents, err)
	}
	consumers := stream.ListConsumers(ctx)
	for info := range consumers.Info() {
		name, ok := strings.CutPrefix(info.Name, schemas.EndpointConsumers)
		if !ok || name == "" {
			continue
		}
		s := all[name]
		s.Name, s.Waiting = name, info.NumPending
		if info.Delivered.Last != nil {
			s.Newest = *info.Delivered.Last
		}
		all[name] = s
	}
	if err := consumers.Err(); err != nil {
		return nil, fmt.Errorf("list consumers of %s: %w", schemas.StreamEvents, err)
	}
	return slices.SortedFunc(maps.Values(all), func(a, b endpointStatus) int { return cmp.Compare(a.Name, b.Name) }), nil
}

// endpointStates returns the stored states by name.
func endpointStates(ctx context.Context, js jetstream.JetStream) (map[string]endpointStatus, error) {
	all := map[string]endpointStatus{}
	for entry, err := range natskit.Entries(ctx, js, schemas.BucketNotifications, schemas.EndpointPrefix+"*", jetstream.IgnoreDeletes()) {
		if err != nil {
			return nil, err
		}
		s := endpointStatus{Name: strings.TrimPrefix(entry.Key(), schemas.EndpointPrefix)}
		if json.Unmarshal(entry.Value(), &s.Endpoint) == nil {
			all[s.Name] = s
		}
	}
	return all, nil
}

type endpointsEnableCmd struct {
	client
	actor
	Name string `arg:"" help:"Name of the endpoint, as unloop endpoints lists it."`
}

// enableTimeout is more than a notifier needs.
const enableTimeout = 15 * time.Second

// Run has a notifier enable an endpoint.
func (c *endpointsEnableCmd) Run(ctx context.Context, std streams) error {
	return c.with(ctx, func(js jetstream.JetStream) error {
		waiting, cancel := context.WithTimeout(ctx, enableTimeout)
		defer cancel()
		if _, err := operator.Deliver(waiting, js.Conn(), operator.Enable, delivery.Request{Endpoint: c.Name}); err != nil {
			return fmt.Errorf("enable %s: %w", c.Name, err)
		}
		c.record(ctx, js, std, schemas.AuditEnableEndpoint, c.Name, "")
		fmt.Fprintf(std.out, "Enabled %s: it gets the loops that are found from now on.\n", c.Name)
		return nil
	})
}
