package deliver

import (
	"context"
	"fmt"
	"time"

	"github.com/unloop/unloop/notifier/internal/outbox"
	"github.com/unloop/unloop/notifier/internal/routing"
	"github.com/unloop/unloop/schemas/delivery"
	"github.com/unloop/unloop/schemas/event"
	"github.com/unloop/unloop/schemas/kit/natskit"
)

// group adds an event to the record of its group. If the group, the endpoint's share or the
// bucket is full, an event of another loop becomes a dead letter.
func (e *endpoint) group(ctx context.Context, def *Endpoint, route *routing.Route, ev *event.Event) error {
	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	now := time.Now()
	key := route.Key(ev)
	noRoom := e.overShare(ctx)
	var refused error
	err := e.records.Apply(ctx, def.groupKey(route, key), func(rec outbox.Record) (outbox.Record, time.Duration) {
		if noRoom && !rec.Knows(ev) {
			refused = errShare
			return rec, 0
		}
		next, changed, err := rec.Add(ev, def.Name, route, e.Silences(), now)
		if refused = err; !changed {
			return rec, 0
		}
		next.By = e.id
		return next, next.TTL()
	})
	if natskit.IsFull(err) {
		err, refused = nil, natskit.ErrFull
	}
	if err != nil {
		return fmt.Errorf("queue event: %w", err)
	}
	if refused == nil || !route.Wants(ev.Type) {
		return nil
	}
	e.report.results[Full].Inc()
	return e.bury(ctx, &delivery.Record{
		ID: ev.ID, Endpoint: def.Name, Key: key, Queued: now, Events: []event.Event{*ev}, Reason: refused.Error(),
	}, Full)
}
