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

const (
	// eventPause is the first pause while there are no more events, eventPauses the longest.
	eventPause, eventPauses = 20 * time.Millisecond, time.Second
)

// eventLog reads the stream of events in order, by direct gets: they need no consumer, which
// users who may only follow events can't create.
type eventLog struct {
	js jetstream.JetStream
	// since is the time from which events are read, then that of the last one.
	since time.Time
	// last is the sequence of the last event; 0 before the first.
	last uint64
	// published receives a value when an event is published: it may be stored soon.
	published chan struct{}
	began     bool
}

// openEvents returns the log of events from a time on.
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

// next returns the events after those that were read, oldest first; none if there are no
// more yet.
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

// failed returns the error of an answer that did not come. Once events were read, a server
// that is away comes back, and the log goes on.
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

// wait returns after a pause, or when an event is published. Where the stream was recreated
// or restored meanwhile, its sequences mean nothing, and the log goes on by time.
func (l *eventLog) wait(ctx context.Context, pause time.Duration) (next time.Duration, err error) {
	select {
	case <-l.published:
		return eventPause, nil
	case <-ctx.Done():
		return 0, ctx.Err()
	case <-time.After(pause):
	}
	if pause < eventPauses {
		return min(2*pause, eventPauses), nil
	}
	if stream, err := l.js.Stream(ctx, schemas.StreamEvents); err == nil && stream.CachedInfo().State.LastSeq < l.last {
		l.last, l.since = 0, l.since.Add(1)
	}
	return eventPauses, nil
}
