package recorder

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/unloop/unloop/schemas"
	"github.com/unloop/unloop/schemas/event"
	"github.com/unloop/unloop/schemas/kit/natskit"
)

const (
	// resolverWait is the time after which JetStream redelivers an unacknowledged marker.
	resolverWait = 30 * time.Second
	// resolverPending bounds the unacknowledged markers.
	resolverPending = 256
	// pullExpiry and pullHeartbeat bound how long a pull request that the server lost goes
	// unnoticed.
	pullExpiry    = 5 * time.Second
	pullHeartbeat = 2 * time.Second
	// retryPause is the pause after a fault of the store.
	retryPause = time.Second
)

// ResolveExpired ends incidents whose time has passed until the context ends. When an
// incident's timer expires, the server replaces it with a marker; one detector gets it, and
// another one if that does not acknowledge it.
func (r *Recorder) ResolveExpired(ctx context.Context) {
	for ctx.Err() == nil {
		err := r.adopt(ctx)
		if err == nil {
			err = r.readMarkers(ctx)
		}
		if ctx.Err() != nil {
			return
		}
		r.log.Debug("ends of incidents cannot be read, retrying", "error", err)
		select {
		case <-time.After(retryPause):
		case <-ctx.Done():
		}
	}
}

// readMarkers handles markers until something breaks.
func (r *Recorder) readMarkers(ctx context.Context) error {
	timers, err := r.nc.JetStream().Stream(ctx, natskit.BucketStream(schemas.BucketTimers))
	if err != nil {
		return fmt.Errorf("open bucket %s: %w", schemas.BucketTimers, err)
	}
	consumer, err := timers.CreateOrUpdateConsumer(ctx, jetstream.ConsumerConfig{
		Durable: schemas.DurableResolver, Description: "Ends of incidents that no detector has seen to yet",
		FilterSubject: timerSubject(">"), AckPolicy: jetstream.AckExplicitPolicy, AckWait: resolverWait,
		MaxAckPending: resolverPending, MaxDeliver: -1, HeadersOnly: true,
	})
	if err != nil {
		return fmt.Errorf("open consumer %s: %w", schemas.DurableResolver, err)
	}
	msgs, err := consumer.Messages(jetstream.PullMaxMessages(1), jetstream.PullExpiry(pullExpiry), jetstream.PullHeartbeat(pullHeartbeat))
	if err != nil {
		return fmt.Errorf("pull from consumer %s: %w", schemas.DurableResolver, err)
	}
	defer msgs.Stop()
	for {
		wait, cancel := context.WithTimeout(ctx, pullExpiry)
		msg, err := msgs.Next(jetstream.NextContext(wait))
		cancel()
		switch {
		case err == nil:
			r.onTimer(ctx, timers, msg)
		case errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil && r.nc.Up():
		default:
			return err
		}
	}
}

// onTimer handles a timer that was set or has expired. It removes a marker that it has handled;
// one that it can't remove expires as well.
func (r *Recorder) onTimer(ctx context.Context, timers jetstream.Stream, msg jetstream.Msg) {
	if msg.Headers().Get(jetstream.MarkerReasonHeader) != "" {
		ctx, cancel := context.WithTimeout(ctx, flushTimeout)
		defer cancel()
		err := r.expire(ctx, timerAt(msg.Subject()))
		if err != nil {
			r.log.Debug("incident is not resolved yet, retrying", "error", err)
			_ = msg.NakWithDelay(retryPause) // it comes again anyway
			return
		}
		if err := remove(ctx, timers, msg); err != nil {
			r.log.Debug("marker of an expired timer was not removed", "error", err)
		}
	}
	_ = msg.Ack() // else it comes again, and the incident is over
}

// remove removes a message from its stream. A later one on its subject stays.
func remove(ctx context.Context, from jetstream.Stream, msg jetstream.Msg) error {
	at, err := msg.Metadata()
	if err != nil {
		return err
	}
	if err := from.DeleteMsg(ctx, at.Sequence.Stream); !errors.Is(err, jetstream.ErrMsgNotFound) {
		return err
	}
	return nil
}

// expire ends the incident of a timer if its time has passed, else sets its timer again.
func (r *Recorder) expire(ctx context.Context, t timer) error {
	rec, err := r.ledger.Read(ctx, t.key)
	switch {
	case err != nil:
		return fmt.Errorf("read incident %s: %w", t.key, err)
	case rec.LoopID != t.loopID:
		return nil // it has ended; another one has a timer of its own
	case !rec.IsOver(r.now()):
		return r.arm(ctx, t, rec.Remaining(r.now()))
	}
	return r.end(ctx, t.key, rec.LoopID, event.ReasonExpired)
}
