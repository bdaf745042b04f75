package deliver

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/unloop/unloop/notifier/internal/outbox"
	"github.com/unloop/unloop/notifier/internal/routing"
	"github.com/unloop/unloop/notifier/internal/sink"
	"github.com/unloop/unloop/schemas"
	"github.com/unloop/unloop/schemas/delivery"
)

// deliver makes an attempt at the message of a claimed record, and records the result.
func (e *endpoint) deliver(ctx context.Context, key string, def *Endpoint, rec *outbox.Record, claim outbox.Claim) *outbox.Record {
	if state := e.state(def.Name); !state.Disabled.IsZero() {
		err := &sink.Error{Kind: sink.Gone, Reason: "the endpoint is disabled: " + state.Reason}
		return e.conclude(ctx, key, def, rec, claim, attempt{at: time.Now(), err: err, disposition: disposition{result: Disabled}})
	}
	if rec.Attempts == 0 && e.delivered(ctx, def.Name, rec.Batch.ID) {
		return e.conclude(ctx, key, def, rec, claim, attempt{at: time.Now(), disposition: disposition{result: Duplicate}})
	}
	a := e.tryTraced(ctx, def, rec)
	a.disposition = decide(a.err, rec.Attempts+1, def.Schedule, rand.Float64())
	if a.result == Interrupted && ctx.Err() == nil {
		a.disposition = decide(&sink.Error{Reason: a.err.Error()}, rec.Attempts+1, def.Schedule, rand.Float64())
	}
	if a.result == Retried && e.overShare(ctx) {
		a.disposition = disposition{result: Full, pause: a.pause}
	}
	return e.conclude(ctx, key, def, rec, claim, a)
}

// delivered reports whether the delivery log shows that an endpoint accepted a message. Events
// are read again if their consumer was lost, or was named differently by another version.
func (p *Pipeline) delivered(ctx context.Context, endpoint, id string) bool {
	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	logged, err := p.journal.Read(ctx, schemas.DeliveryKey(endpoint, id))
	return err == nil && logged.Status == delivery.Delivered
}

// attempt is one attempt at a message and its disposition.
type attempt struct {
	at   time.Time
	took time.Duration
	err  error
	disposition
}

// tryTraced is try within a span, if traces are sent.
func (e *endpoint) tryTraced(ctx context.Context, def *Endpoint, rec *outbox.Record) attempt {
	if e.Traces == nil {
		return e.try(ctx, def, rec.Batch)
	}
	ctx, span := e.startSpan(ctx, def, rec)
	defer span.End()
	a := e.try(ctx, def, rec.Batch)
	describe(span, a.logged())
	return a
}

// try makes one attempt at a message.
func (e *endpoint) try(ctx context.Context, def *Endpoint, b *routing.Batch) attempt {
	ctx, cancel := context.WithTimeout(ctx, def.Timeout)
	defer cancel()
	a := attempt{at: time.Now()}
	a.err = def.Sink.Send(ctx, &sink.Message{ID: b.ID, Endpoint: def.Name, Resolved: b.Resolved, Key: b.Key, Events: b.Events, Page: e.Page, Time: a.at})
	a.took = time.Since(a.at)
	e.report.seconds.Observe(a.took.Seconds())
	return a
}

// logged returns the attempt for the delivery log.
func (a *attempt) logged() delivery.Attempt {
	out := delivery.Attempt{At: a.at.UTC(), Milliseconds: a.took.Milliseconds()}
	var e *sink.Error
	switch {
	case a.err == nil:
	case errors.As(a.err, &e):
		out.Status, out.Error = e.Status, e.Reason
	default:
		out.Error = a.err.Error()
	}
	return out
}
