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
	// ackWait is JetStream's patience with an event that nothing is heard of. It is as
	// long as a notifier that was killed holds the events of an endpoint up.
	ackWait = 5 * time.Second
	// idle is how long a consumer is kept that no notifier uses: longer than the stream
	// keeps events.
	idle = 14 * 24 * time.Hour
	// pullExpiry and pullHeartbeat bound how long a pull request that the server
	// lost goes unnoticed.
	pullExpiry    = 5 * time.Second
	pullHeartbeat = 2 * time.Second
	// handBackTimeout bounds the wait for messages that were under way when
	// pulling ended.
	handBackTimeout = time.Second
)

// open finds or makes the stream and the consumer, and begins to pull.
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

// countMissed reports the events that the stream has dropped since the consumer's last
// one: nobody took them in for longer than the stream keeps events.
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
	in.log.WarnContext(ctx, "events were dropped from the stream before a notifier took them in", "endpoint", in.cfg.Endpoint, "events", missed)
	in.cfg.Missed(missed)
	return nil
}

// consumer returns the endpoint's consumer. One that exists is left as its operator made
// it.
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

// consumerConfig returns the consumer of an endpoint that is new. Only one event at a time
// is handed out, so that none overtakes another.
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

// next waits for a message. Between waits it looks whether there is still a
// server that could send one.
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

// handBack ends pulling. A message that arrives all the same goes back at
// once, so that it need not wait for JetStream's patience to end.
func handBack(msgs jetstream.MessagesContext) {
	msgs.Drain()
	ctx, cancel := context.WithTimeout(context.Background(), handBackTimeout)
	defer cancel()
	for {
		msg, err := msgs.Next(jetstream.NextContext(ctx))
		if err != nil {
			return
		}
		// What can't go back comes again on its own.
		_ = msg.Nak()
	}
}
