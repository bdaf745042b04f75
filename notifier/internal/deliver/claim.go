package deliver

import (
	"context"
	"time"

	"github.com/nats-io/nuid"

	"github.com/unloop/unloop/notifier/internal/outbox"
)

// take claims the next attempt at a record's message. It returns the stored record, and false
// if no attempt is due.
func (e *endpoint) take(ctx context.Context, def *Endpoint, it *item) (claim outbox.Claim, rec outbox.Record, taken bool, err error) {
	claim = outbox.Claim{By: e.id, ID: nuid.Next()}
	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	err = e.records.Apply(ctx, it.key, func(was outbox.Record) (outbox.Record, time.Duration) {
		rec, taken = was.Take(claim, it.lapsed, def.route(was.Group.Route), e.Silences(), time.Now())
		if !taken && rec.Next().Equal(was.Next()) && rec.Claim == was.Claim {
			return was, 0
		}
		return rec, rec.TTL()
	})
	return claim, rec, taken, err
}

// release gives up a claim without an attempt.
func (e *endpoint) release(key string, def *Endpoint, rec *outbox.Record, claim outbox.Claim, wait time.Duration) *outbox.Record {
	ctx, cancel := context.WithTimeout(context.Background(), lastTimeout)
	defer cancel()
	next, err := e.finish(ctx, key, def, rec, claim, outbox.Outcome{Wait: wait})
	if err != nil {
		e.Log.Debug("claim not released; it expires by itself", "error", err)
		return nil
	}
	return next
}

// lastTimeout bounds the storing of state when the process ends.
const lastTimeout = 2 * time.Second

// finish stores the outcome of an attempt in its record, and returns the record.
func (e *endpoint) finish(ctx context.Context, key string, def *Endpoint, rec *outbox.Record, claim outbox.Claim, o outbox.Outcome) (*outbox.Record, error) {
	var next outbox.Record
	err := e.records.Apply(ctx, key, func(was outbox.Record) (outbox.Record, time.Duration) {
		var changed bool
		next, changed = was.Finish(claim, rec.Batch.ID, o, def.route(was.Group.Route), e.Silences(), time.Now())
		if !changed {
			return was, 0
		}
		return next, next.TTL()
	})
	return &next, err
}
