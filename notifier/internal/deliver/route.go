package deliver

import (
	"context"
	"errors"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/unloop/unloop/notifier/internal/routing"
	"github.com/unloop/unloop/schemas/event"
)

// Accept handles one message of the event stream for an endpoint: it adds the event to the
// record of its group and acknowledges it. An event that could not be stored is redelivered.
func (p *Pipeline) Accept(ctx context.Context, name string, msg jetstream.Msg) {
	e := p.endpoint(name)
	if e == nil {
		_ = msg.NakWithDelay(tryAgain) // otherwise the event is redelivered later
		return
	}
	ev, err := event.Parse(msg.Data())
	if err != nil {
		e.invalid(ctx, msg)
		return
	}
	def := e.def.Load()
	if route := routing.Find(def.Routes, &ev); route != nil {
		err = e.group(ctx, def, route, &ev)
	}
	if err != nil {
		if !errors.Is(err, context.Canceled) {
			e.Log.WarnContext(ctx, "event is not queued yet, retrying", "endpoint", name, "event_id", ev.ID, "error", err)
		}
		_ = msg.NakWithDelay(tryAgain)
		return
	}
	// If the acknowledgement is lost, the event is redelivered and found in its record.
	_ = msg.Ack()
}

// invalid drops a message that is not an event.
func (e *endpoint) invalid(ctx context.Context, msg jetstream.Msg) {
	var sequence uint64
	if meta, err := msg.Metadata(); err == nil {
		sequence = meta.Sequence.Stream
	}
	e.report.results[Invalid].Inc()
	// The error is left out because it quotes the body.
	e.Log.WarnContext(ctx, "dropped a message that is not an event", "stream_sequence", sequence)
	_ = msg.TermWithReason(string(Invalid)) // otherwise it is redelivered and dropped again
}

// storeTimeout bounds a change of a record, retries after conflicts included.
const storeTimeout = 10 * time.Second
