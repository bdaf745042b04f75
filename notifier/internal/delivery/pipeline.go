package delivery

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// Pipeline takes messages to one sink. It is safe for concurrent use.
type Pipeline struct {
	sink    Sink
	timeout time.Duration
	retry   Retry
	metrics *Metrics
	report  reporter
	log     *slog.Logger
}

// New returns a pipeline to the sink, which has the given time for an attempt.
func New(sink Sink, timeout time.Duration, retry Retry, metrics *Metrics, log *slog.Logger) *Pipeline {
	log = log.With("sink", sink.Name())
	return &Pipeline{
		sink: sink, timeout: timeout, retry: retry, metrics: metrics,
		report: reporter{log: log, metrics: metrics}, log: log,
	}
}

// Handle makes one attempt to deliver the message, and settles it with
// JetStream. When the context ends, the attempt is broken off and the message
// goes back for others.
func (p *Pipeline) Handle(ctx context.Context, msg jetstream.Msg) {
	a, err := read(msg)
	v := verdict{result: Invalid}
	if err == nil {
		err = p.send(ctx, msg, a)
		v = p.retry.judge(err, a.number, time.Since(a.stored), rand.Float64())
	}
	if err := settle(ctx, msg, v); err != nil {
		p.log.WarnContext(ctx, "event will come again", "error", err, "event_id", a.event.ID, "result", v.result)
	}
	p.report.report(ctx, a, v, err)
}
