package cli

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/unloop/unloop/schemas"
	"github.com/unloop/unloop/schemas/event"
	"github.com/unloop/unloop/schemas/kit/natskit"
)

// While there are no more events, polling slows down from minEventPause to maxEventPause.
const minEventPause, maxEventPause = 20 * time.Millisecond, time.Second

// eventLog reads the stream of events in order. It uses direct gets, because users who may
// only follow events cannot create a consumer.
type eventLog struct {
	js jetstream.JetStream
	// since is the time to read from, then the time of the last event.
	since time.Time
	// last is the sequence of the last event; 0 before the first.
	last uint64
	// published receives a value when an event is published, which will be stored soon.
	published chan struct{}
	began     bool
}

// openEvents returns the log of events since a time.
func openEvents(ctx context.Context, js jetstream.JetStream, since time.Time) (*eventLog, error) {
	l := &eventLog{js: js, since: since, published: make(chan struct{}, 1)}
	stream, err := js.Stream(ctx, schemas.StreamEvents)
	if err != nil {
		return nil, explain(fmt.Errorf("read events: %w", err))
	}
	if !stream.CachedInfo().Config.AllowDirect {
		return nil, fmt.Errorf("read events: stream %s does not allow direct gets; allow them with nats stream edit %[1]s --allow-direct", schemas.StreamEvents)
	}
	for _, kind := range []event.Type{event.Detected, event.Ongoing, event.Resolved} {
		_, err := js.Conn().Subscribe(string(kind)+".>", func(*nats.Msg) {
			select {
			case l.published <- struct{}{}:
			default: // one value is enough
			}
		})
		if err != nil {
			return nil, fmt.Errorf("follow events: %w", err)
		}
	}
	return l, nil
}

// next returns the next events, oldest first; none if there are no more yet.
func (l *eventLog) next(ctx context.Context) (events [][]byte, err error) {
	get := natskit.DirectGet{Since: l.since}
	if l.last > 0 {
		get.From = l.last + 1
	}
	for msg, err := range get.Ask(ctx, l.js, schemas.StreamEvents) {
		if err != nil {
			return events, l.failed(ctx, err)
		}
		l.last, l.since, events = msg.Sequence, msg.At, append(events, msg.Data)
	}
	l.began = true
	return events, nil
}

// failed returns the error for a failed read. Once events were read, a server that does not
// answer is expected to come back, and failed returns nil.
func (l *eventLog) failed(ctx context.Context, err error) error {
	away := errors.Is(err, context.DeadlineExceeded) || errors.Is(err, nats.ErrNoResponders)
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case l.began && away && !l.js.Conn().IsClosed():
		return nil
	}
	return fmt.Errorf("read events: %w", err)
}

// wait returns after a pause, or earlier when an event is published. If the stream was
// recreated or restored meanwhile, its sequence numbers start over, and the log goes on by
// time.
func (l *eventLog) wait(ctx context.Context, pause time.Duration) (next time.Duration, err error) {
	select {
	case <-l.published:
		return minEventPause, nil
	case <-ctx.Done():
		return 0, ctx.Err()
	case <-time.After(pause):
	}
	if pause < maxEventPause {
		return min(2*pause, maxEventPause), nil
	}
	if stream, err := l.js.Stream(ctx, schemas.StreamEvents); err == nil && stream.CachedInfo().State.LastSeq < l.last {
		l.last, l.since = 0, l.since.Add(1)
	}
	return maxEventPause, nil
}
