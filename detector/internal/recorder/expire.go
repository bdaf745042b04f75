package recorder

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/unloop/unloop/detector/internal/incident"
	"github.com/unloop/unloop/schemas"
	"github.com/unloop/unloop/schemas/event"
	"github.com/unloop/unloop/schemas/kit/natskit"
)

const (
	// resolverWait is JetStream's patience with the end of an incident that nothing is
	// heard of.
	resolverWait = 30 * time.Second
	// resolverPending bounds the ends that are seen to at once.
	resolverPending = 256
	// pullExpiry and pullHeartbeat bound how long a pull request that the server lost goes
	// unnoticed.
	pullExpiry    = 2 * time.Second
	pullHeartbeat = 500 * time.Millisecond
	// resolveAgain is the pause after a fault of the store.
	resolveAgain = time.Second
)

// ResolveExpired ends incidents whose time has passed until the context ends. The server puts a
// marker in the place of an incident's timer that has expired; one detector gets it, and
// another one if that does not acknowledge it.
func (r *Recorder) ResolveExpired(ctx context.Context) {
	if err := r.adopt(ctx); err != nil && ctx.Err() == nil {
		r.log.Warn("open incidents could not be read; those of an earlier version may end without an event", "error", err)
	}
	for ctx.Err() == nil {
		err := r.readMarkers(ctx)
		if ctx.Err() != nil {
			return
		}
		r.log.Debug("ends of incidents can't be read, trying again", "error", err)
		select {
		case <-time.After(resolveAgain):
		case <-ctx.Done():
		}
	}
}

func timerSubject(key string) string {
	return "$KV." + schemas.BucketIncidents + "." + schemas.IncidentTimerPrefix + key
}

// readMarkers handles markers until something breaks.
func (r *Recorder) readMarkers(ctx context.Context) error {
	consumer, err := r.nc.JetStream().CreateOrUpdateConsumer(ctx, "KV_"+schemas.BucketIncidents, jetstream.ConsumerConfig{
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
			r.onTimer(ctx, msg)
		case errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil && r.nc.Up():
		default:
			return err
		}
	}
}

// onTimer sees to a timer that was set or has expired.
func (r *Recorder) onTimer(ctx context.Context, msg jetstream.Msg) {
	var err error
	if msg.Headers().Get(jetstream.MarkerReasonHeader) != "" {
		ctx, cancel := context.WithTimeout(ctx, flushTimeout)
		defer cancel()
		err = r.expire(ctx, strings.TrimPrefix(msg.Subject(), timerSubject("")))
	}
	if err != nil {
		r.log.Debug("incident is not resolved yet, trying again", "error", err)
		_ = msg.NakWithDelay(resolveAgain) // it comes again anyway
		return
	}
	_ = msg.Ack() // else it comes again, and the incident is over
}

// expire ends the incident under a key if its time has passed, else sets its timer anew.
func (r *Recorder) expire(ctx context.Context, key string) error {
	rec, err := r.ledger.Read(ctx, key)
	switch {
	case err != nil:
		return fmt.Errorf("read incident %s: %w", key, err)
	case rec.LoopID == "":
		return nil
	case !rec.IsOver(r.now()):
		return r.arm(ctx, key, rec.Remaining(r.now()))
	}
	return r.end(ctx, key, rec.LoopID, event.ReasonExpired)
}

// arm sets the timer of an incident.
func (r *Recorder) arm(ctx context.Context, key string, wait time.Duration) error {
	seconds := max(int64((wait+time.Second-1)/time.Second), 1)
	_, err := r.nc.JetStream().PublishMsg(ctx, &nats.Msg{
		Subject: r.nc.RecordSubject(schemas.BucketIncidents, schemas.IncidentTimerPrefix+key), Header: nats.Header{jetstream.MsgTTLHeader: {fmt.Sprintf("%ds", seconds)}},
	})
	if err != nil {
		return fmt.Errorf("set timer of incident %s: %w", key, err)
	}
	return nil
}

// adopt sets the timers of the open incidents: those of an earlier version have none, and
// one may be missing after a crash.
func (r *Recorder) adopt(ctx context.Context) error {
	if err := r.nc.EnsureStreams(ctx, r.layout.Of([]string{natskit.BucketStream(schemas.BucketIncidents)})); err != nil {
		return err
	}
	var keys []string
	var faults []error
	for entry, err := range natskit.Entries(ctx, r.nc.JetStream(), schemas.BucketIncidents, ">", jetstream.IgnoreDeletes()) {
		if err != nil {
			faults = append(faults, err)
		} else if !strings.HasPrefix(entry.Key(), schemas.IncidentTimerPrefix) {
			keys = append(keys, entry.Key())
		}
	}
	for _, key := range keys {
		faults = append(faults, r.adoptOne(ctx, key))
	}
	return errors.Join(faults...)
}

func (r *Recorder) adoptOne(ctx context.Context, key string) error {
	var rec incident.Record
	err := r.ledger.Apply(ctx, key, func(was incident.Record) (incident.Record, time.Duration) {
		if rec = was; was.LoopID == "" {
			return was, 0
		}
		return was, was.TTL()
	})
	if err != nil || rec.LoopID == "" {
		return err
	}
	return r.arm(ctx, key, rec.Remaining(r.now()))
}
