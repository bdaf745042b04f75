package watch

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/unloop/unloop/schemas"
)

const (
	// reach is how many of the newest events are read at the start.
	reach = 5000
	// pullExpiry and pullHeartbeat bound the time in which a lost pull request is noticed.
	pullExpiry    = 5 * time.Second
	pullHeartbeat = 2 * time.Second
	// retryAfter is the pause after a fault.
	retryAfter = 250 * time.Millisecond
)

// errAnew means that the stream has to be reopened.
var errAnew = errors.New("the connection or a stream was replaced")

// followEvents reads the stream of events until the context ends.
func (w *Watcher) followEvents(ctx context.Context) error {
	var created time.Time
	for ctx.Err() == nil {
		err := w.readEvents(ctx, &created)
		if errors.Is(err, errAnew) || ctx.Err() != nil {
			continue // a new connection, or the end
		}
		w.log.DebugContext(ctx, "events can't be read, retrying", "error", err)
		select {
		case <-time.After(retryAfter):
		case <-ctx.Done():
		}
	}
	return nil
}

// readEvents reads events until a fault occurs. created is the creation time of the stream that
// was read before.
func (w *Watcher) readEvents(ctx context.Context, created *time.Time) error {
	anew, stopListening := w.nc.Changed()
	defer stopListening()
	if err := w.nc.EnsureStreams(ctx, w.layout.Of([]string{schemas.StreamEvents})); err != nil {
		return err
	}
	js := w.nc.JetStream()
	stream, err := js.Stream(ctx, schemas.StreamEvents)
	if err != nil {
		return fmt.Errorf("open stream %s: %w", schemas.StreamEvents, err)
	}
	info := stream.CachedInfo()
	if !created.Equal(info.Created) {
		w.board.History.Reset()
		*created = info.Created
	}
	start := max(w.board.History.Last()+1, 1)
	if last := info.State.LastSeq; last >= reach {
		start = max(start, last-reach+1)
	}
	consumer, err := js.OrderedConsumer(ctx, schemas.StreamEvents, jetstream.OrderedConsumerConfig{
		DeliverPolicy: jetstream.DeliverByStartSequencePolicy, OptStartSeq: start,
	})
	if err != nil {
		return fmt.Errorf("read stream %s: %w", schemas.StreamEvents, err)
	}
	messages, err := consumer.Messages(jetstream.PullExpiry(pullExpiry), jetstream.PullHeartbeat(pullHeartbeat))
	if err != nil {
		return fmt.Errorf("read stream %s: %w", schemas.StreamEvents, err)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	failed := make(chan error, 1)
	go func() { failed <- w.takeEvents(ctx, messages) }()
	// If the server does not answer, reading and Stop take longer than this function.
	defer func() { go messages.Stop() }()
	select {
	case err := <-failed:
		return fmt.Errorf("read events: %w", err)
	case <-anew:
		return errAnew
	case <-ctx.Done():
		return ctx.Err()
	}
}

// takeEvents reads events until the context ends or the messages do.
func (w *Watcher) takeEvents(ctx context.Context, messages jetstream.MessagesContext) error {
	for {
		msg, err := messages.Next(jetstream.NextContext(ctx))
		if err := errors.Join(ctx.Err(), err); err != nil {
			return err
		}
		if meta, err := msg.Metadata(); err == nil {
			w.board.History.Add(meta.Sequence.Stream, msg.Data())
		}
	}
}
