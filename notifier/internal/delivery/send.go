package delivery

import (
	"context"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/unloop/unloop/schemas/event"
)

// Sink takes events to the outside. Errors may have a method Permanent() bool
// (no later attempt can succeed) and RetryAfter() time.Duration (the least
// wait before one).
type Sink interface {
	// Name is the sink's name in metrics and logs.
	Name() string
	// Send delivers an event, whose JSON is body, or errs when the context
	// ends. Neither argument may be changed or kept.
	Send(ctx context.Context, e event.Event, body []byte) error
}

// keepAlive is the interval at which JetStream is notified that a delivery goes on; its
// patience is the consumer's AckWait, several times as long.
const keepAlive = 5 * time.Second

// send makes the attempt. When it returns, nothing of it goes on.
func (p *Pipeline) send(ctx context.Context, msg jetstream.Msg, a attempt) error {
	ctx, cancel := context.WithTimeout(ctx, p.timeout)
	var alive sync.WaitGroup
	alive.Go(func() { stayAlive(ctx, msg) })
	start := time.Now()
	err := p.sink.Send(ctx, a.event, a.body)
	p.metrics.seconds.Observe(time.Since(start).Seconds())
	cancel()
	alive.Wait()
	return err
}

// stayAlive keeps JetStream from giving the message to someone else until the
// context ends. A signal that is lost costs at most a second delivery.
func stayAlive(ctx context.Context, msg jetstream.Msg) {
	tick := time.NewTicker(keepAlive)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			_ = msg.InProgress()
		case <-ctx.Done():
			return
		}
	}
}
