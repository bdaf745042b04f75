package chaos

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/unloop/unloop/schemas"
	"github.com/unloop/unloop/schemas/event"
)

// announcedWithin is the time within which the event of a reported loop must be stored.
const announcedWithin = 15 * time.Second

// unannounced counts the loops that were reported to clients and have no loop.detected
// event in the stream.
func (c *cluster) unannounced(ctx context.Context, r *tally) (lost int, err error) {
	conn, err := c.connect()
	if err != nil {
		return 0, err
	}
	defer conn.Close()
	ctx, cancel := context.WithTimeout(ctx, announcedWithin)
	defer cancel()
	events, err := consume(ctx, conn.JetStream())
	if err != nil {
		return 0, fmt.Errorf("read events: %w", err)
	}
	for len(r.loops) > 0 && ctx.Err() == nil {
		batch, err := events.Fetch(100, jetstream.FetchMaxWait(time.Second))
		if err != nil && !errors.Is(err, context.DeadlineExceeded) {
			return 0, fmt.Errorf("read events: %w", err)
		}
		for msg := range batch.Messages() {
			e, err := event.Parse(msg.Data())
			if err != nil {
				return 0, fmt.Errorf("read an event: %w", err)
			}
			delete(r.loops, e.Data.LoopID)
		}
	}
	return len(r.loops), nil
}

// consume opens the stream of events. A request that a killed leader got has no answer, so
// it is sent again and again.
func consume(ctx context.Context, js jetstream.JetStream) (jetstream.Consumer, error) {
	for {
		try, cancel := context.WithTimeout(ctx, writeWithin)
		events, err := js.OrderedConsumer(try, schemas.StreamEvents, jetstream.OrderedConsumerConfig{FilterSubjects: []string{string(event.Detected) + ".>"}})
		cancel()
		if err == nil || ctx.Err() != nil {
			return events, err
		}
	}
}
