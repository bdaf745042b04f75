package pull

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/unloop/unloop/schemas"
)

const (
	// ackWait is the time after which an event that was not acknowledged is redelivered. For so
	// long, a killed notifier blocks the events of an endpoint.
	ackWait = 5 * time.Second
	// idle is how long an unused consumer is kept: longer than the stream keeps events.
	idle = 14 * 24 * time.Hour
	// pullExpiry and pullHeartbeat bound the time in which a lost pull request is noticed.
	pullExpiry    = 5 * time.Second
	pullHeartbeat = 2 * time.Second
	// handBackTimeout bounds the wait for messages that were in flight when pulling ended.
	handBackTimeout = time.Second
)

// open finds or creates the stream and the consumer, and starts to pull.
func (in *Intake) open(ctx context.Context) (jetstream.MessagesContext, error) {
	if err := in.nc.EnsureStreams(ctx, in.cfg.Layout.Of([]string{schemas.StreamEvents})); err != nil {
		return nil, err
	}
	consumer, err := in.consumer(ctx)
	if err != nil {
		return nil, err
	}
	if err := in.countMissed(ctx, consumer.CachedInfo()); err != nil {
		return nil, err
	}
	msgs, err := consumer.Messages(jetstream.PullMaxMessages(1),
		jetstream.PullExpiry(pullExpiry), jetstream.PullHeartbeat(pullHeartbeat))
	if err != nil {
		return nil, fmt.Errorf("pull from consumer %s: %w", schemas.EndpointConsumer(in.cfg.Endpoint), err)
	}
	return msgs, nil
}

// countMissed reports the events that the stream dropped before a notifier read them.
func (in *Intake) countMissed(ctx context.Context, info *jetstream.ConsumerInfo) error {
	stream, err := in.nc.JetStream().Stream(ctx, schemas.StreamEvents)
	if err != nil {
		return fmt.Errorf("open stream %s: %w", schemas.StreamEvents, err)
	}
	taken, first := info.AckFloor.Stream, stream.CachedInfo().State.FirstSeq
	if taken == 0 || first <= taken+1 {
		return nil
	}
	missed := first - taken - 1
	in.log.WarnContext(ctx, "events were dropped from the stream before a notifier read them", "endpoint", in.cfg.Endpoint, "events", missed)
	in.cfg.Missed(missed)
	return nil
}

// consumer returns the endpoint's consumer. The configuration of an existing one is not
// changed.
func (in *Intake) consumer(ctx context.Context) (jetstream.Consumer, error) {
	js, name := in.nc.JetStream(), schemas.EndpointConsumer(in.cfg.Endpoint)
	consumer, err := js.Consumer(ctx, schemas.StreamEvents, name)
	if errors.Is(err, jetstream.ErrConsumerNotFound) {
		consumer, err = js.CreateConsumer(ctx, schemas.StreamEvents, in.consumerConfig())
		if errors.Is(err, jetstream.ErrConsumerExists) {
			consumer, err = js.Consumer(ctx, schemas.StreamEvents, name)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("open consumer %s of stream %s: %w", name, schemas.StreamEvents, err)
	}
	return consumer, nil
}

// consumerConfig returns the configuration of a new consumer. It delivers one event at a time,
// to keep their order.
func (in *Intake) consumerConfig() jetstream.ConsumerConfig {
	cfg := jetstream.ConsumerConfig{
		Durable:           schemas.EndpointConsumer(in.cfg.Endpoint),
		Description:       "Events that are not queued for an endpoint yet",
		AckPolicy:         jetstream.AckExplicitPolicy,
		AckWait:           ackWait,
		MaxAckPending:     1,
		MaxDeliver:        -1,
		InactiveThreshold: idle,
	}
	switch in.cfg.Since {
	case All:
		cfg.DeliverPolicy = jetstream.DeliverAllPolicy
	case 0:
		cfg.DeliverPolicy = jetstream.DeliverNewPolicy
	default:
		start := time.Now().Add(-in.cfg.Since)
		cfg.DeliverPolicy, cfg.OptStartTime = jetstream.DeliverByStartTimePolicy, &start
	}
	return cfg
}

// next waits for a message. It fails if the connection is lost meanwhile.
func (in *Intake) next(ctx context.Context, msgs jetstream.MessagesContext, working func()) (jetstream.Msg, error) {
	for {
		wait, cancel := context.WithTimeout(ctx, pullExpiry)
		msg, err := msgs.Next(jetstream.NextContext(wait))
		cancel()
		switch {
		case err == nil:
			working()
			return msg, nil
		case !errors.Is(err, context.DeadlineExceeded) || ended(ctx):
			return nil, err
		case !in.nc.Up():
			return nil, in.nc.Err()
		}
		working()
	}
}

// handBack ends pulling. It returns a message that still arrives at once, so that it is not
// delayed by ackWait.
func handBack(msgs jetstream.MessagesContext) {
	msgs.Drain()
	ctx, cancel := context.WithTimeout(context.Background(), handBackTimeout)
	defer cancel()
	for {
		msg, err := msgs.Next(jetstream.NextContext(ctx))
		if err != nil {
			return
		}
		_ = msg.Nak() // otherwise it is redelivered later
	}
}
