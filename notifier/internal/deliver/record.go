package deliver

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/cenkalti/backoff/v5"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/unloop/unloop/notifier/internal/outbox"
	"github.com/unloop/unloop/notifier/internal/routing"
	"github.com/unloop/unloop/schemas"
	"github.com/unloop/unloop/schemas/delivery"
	"github.com/unloop/unloop/schemas/storepb"
)

// conclude records the result of an attempt: a message that is given up becomes a dead letter,
// the group's record is updated, and the attempt is logged. It returns the record; nil if it
// could not be stored before the process ends.
func (e *endpoint) conclude(ctx context.Context, key string, def *Endpoint, rec *outbox.Record, claim outbox.Claim, a attempt) *outbox.Record {
	if a.result == Interrupted {
		e.report.report(ctx, rec.Batch, a, rec.Attempts)
		return e.release(key, def, rec, claim, 0)
	}
	// The attempt has had its effect, even if the process ends now.
	ctx, cancel := e.lasting(ctx)
	defer cancel()
	e.note(ctx, def, &a)
	line := lineOf(def, rec, &a)
	if a.result.dead() {
		if err := e.persist(ctx, func() error { return e.bury(ctx, &line, a.result) }); err != nil {
			return nil
		}
	}
	var next *outbox.Record
	err := e.persist(ctx, func() (err error) {
		next, err = e.finish(ctx, key, def, rec, claim, a.outcome())
		return err
	})
	e.report.report(ctx, rec.Batch, a, rec.Attempts+1)
	if err != nil {
		e.Log.WarnContext(ctx, "message will be sent again: its delivery could not be stored", "endpoint", def.Name, "message_id", rec.Batch.ID, "error", err)
		return nil
	}
	if a.result != Duplicate { // a duplicate is in the log already
		e.write(ctx, &line, a.logged())
	}
	return next
}

// lasting returns a context that outlives ctx by lastTimeout.
func (e *endpoint) lasting(ctx context.Context) (context.Context, context.CancelFunc) {
	lasting, cancel := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() { time.AfterFunc(lastTimeout, cancel) })
	return lasting, func() { stop(); cancel() }
}

// persist calls f until it succeeds or the context ends: what is not stored makes the message
// be sent again.
func (e *endpoint) persist(ctx context.Context, f func() error) error {
	wait := backoff.NewExponentialBackOff()
	wait.InitialInterval, wait.MaxInterval = 50*time.Millisecond, tryAgain
	_, err := backoff.Retry(ctx, func() (struct{}, error) { return struct{}{}, f() }, backoff.WithBackOff(wait), backoff.WithMaxElapsedTime(0))
	return err
}

// note stores a pause or a Gone that an endpoint answered.
func (e *endpoint) note(ctx context.Context, def *Endpoint, a *attempt) {
	var err error
	switch {
	case a.result == Gone:
		err = e.disable(ctx, def.Name, a.err.Error())
		e.Log.WarnContext(ctx, "endpoint asked for no more messages and is disabled", "endpoint", def.Name)
	case a.pause > 0:
		err = e.pause(ctx, def.Name, min(a.pause, outbox.MaxAfter))
	}
	if err != nil {
		e.Log.WarnContext(ctx, "pause or end that an endpoint asked for was not stored", "endpoint", def.Name, "error", err)
	}
}

// lineOf returns the log entry of a message after an attempt, without the attempt.
func lineOf(def *Endpoint, rec *outbox.Record, a *attempt) delivery.Record {
	line := recordOf(def.Name, rec.Batch, rec.Queued)
	switch a.result {
	case Delivered, Duplicate:
		line.Status = delivery.Delivered
	case Retried:
		line.Status, line.Next = delivery.Retrying, a.at.Add(a.took+a.wait).UTC()
	default:
		line.Status, line.Reason = delivery.Dead, string(a.result)+": "+a.err.Error()
	}
	line.Tried = rec.Attempts
	return line
}

func recordOf(endpoint string, b *routing.Batch, queued time.Time) delivery.Record {
	return delivery.Record{ID: b.ID, Endpoint: endpoint, Key: b.Key, Resolved: b.Resolved, Queued: queued.UTC(), Events: b.Events}
}

// bury publishes a dead letter. The server drops a second copy of it.
func (p *Pipeline) bury(ctx context.Context, line *delivery.Record, why Result) error {
	dead := *line
	dead.Status, dead.Tried = delivery.Dead, dead.Tried+1
	body, err := json.Marshal(dead)
	if err != nil {
		return fmt.Errorf("encode dead letter: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	ack, err := p.NATS.JetStream().PublishMsg(ctx, &nats.Msg{
		Subject: schemas.DeadLetterSubject(dead.Endpoint), Data: body,
		Header: nats.Header{jetstream.MsgIDHeader: {dead.Endpoint + "/" + dead.ID}},
	})
	p.NATS.Wrote(schemas.StreamDeadLetters, err)
	if err != nil {
		return fmt.Errorf("store dead letter: %w", err)
	}
	if !ack.Duplicate {
		p.metrics.dead.WithLabelValues(dead.Endpoint, string(why)).Inc()
	}
	return nil
}

// keepLog is how long the delivery log keeps a message after its last attempt.
const keepLog = 7 * 24 * time.Hour

// entry is a message in the delivery log.
type entry struct{ delivery.Record }

// Parse reads what Append wrote.
func (l *entry) Parse(stored []byte) error { return storepb.ReadDocument(stored, &l.Record) }

// Append writes the entry as a document.
func (l *entry) Append(b []byte) []byte { return storepb.AppendDocument(b, &l.Record) }

// write adds an attempt to the delivery log, and returns the log entry. If the log can't be
// written, delivery goes on.
func (p *Pipeline) write(ctx context.Context, line *delivery.Record, a delivery.Attempt) delivery.Record {
	var next entry
	err := p.journal.Apply(ctx, schemas.DeliveryKey(line.Endpoint, line.ID), func(was entry) (entry, time.Duration) {
		next.Record = *line
		next.Attempts, next.Tried = was.Attempts, max(was.Tried, line.Tried)
		next.Record = next.Add(a)
		return next, keepLog
	})
	if err != nil {
		p.Log.WarnContext(ctx, "attempt is missing in the delivery log", "endpoint", line.Endpoint, "message_id", line.ID, "error", err)
	}
	return next.Record
}
