package delivery

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/unloop/unloop/notifier/internal/outbox"
	"github.com/unloop/unloop/notifier/internal/routing"
	"github.com/unloop/unloop/schemas/delivery"
	"github.com/unloop/unloop/schemas/event"
)

// group adds an event to the record of its group. If the group is full, the event becomes
// a dead letter.
func (e *endpoint) group(ctx context.Context, def *Endpoint, route *routing.Route, ev *event.Event) error {
	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	now := time.Now()
	key := route.Key(ev)
	var refused error
	err := e.records.Apply(ctx, def.groupKey(route, key), func(rec outbox.Record) (outbox.Record, time.Duration) {
		next, changed, err := rec.Add(ev, def.Name, route, e.Silences(), now)
		if refused = err; !changed {
			return rec, 0
		}
		next.By = e.id
		return next, next.TTL()
	})
	if err != nil {
		return fmt.Errorf("queue event: %w", err)
	}
	if !errors.Is(refused, outbox.ErrFull) {
		return nil
	}
	e.report.results[Full].Inc()
	return e.bury(ctx, &delivery.Record{
		ID: ev.ID, Endpoint: def.Name, Key: key, Queued: now, Events: []event.Event{*ev}, Reason: outbox.ErrFull.Error(),
	}, Full)
}
