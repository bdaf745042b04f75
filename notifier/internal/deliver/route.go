package deliver

import (
	"context"
	"errors"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/unloop/unloop/notifier/internal/routing"
	"github.com/unloop/unloop/schemas/event"
)

// Accept takes one message of the event stream for an endpoint: it adds the event to the
// record of its group and acknowledges it. An event that could not be stored comes again.
func (p *Pipeline) Accept(ctx context.Context, name string, msg jetstream.Msg) {
	e := p.endpoint(name)
	if e == nil {
		_ = msg.NakWithDelay(tryAgain) // without it, the event comes again later
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
	// An acknowledgement that is lost makes the event come again, and its record has it.
	_ = msg.Ack()
}

// invalid drops a message that is not an event.
func (e *endpoint) invalid(ctx context.Context, msg jetstream.Msg) {
	var sequence uint64
	if meta, err := msg.Metadata(); err == nil {
		sequence = meta.Sequence.Stream
	}
	e.report.results[Invalid].Inc()
	// The error would quote from the body.
	e.Log.WarnContext(ctx, "dropped a message that is no event", "stream_sequence", sequence)
	_ = msg.TermWithReason(string(Invalid)) // else it comes again and is dropped again
}

// storeTimeout bounds a change of a record, with its attempts against conflicts.
const storeTimeout = 10 * time.Second
