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
	// interruptions is nil where nobody counts them.
	interruptions Interruptions
}

// Interruptions counts by an event's place in the stream how often it was sent back
// because its notifier stopped. JetStream counts such deliveries like any other.
type Interruptions interface {
	// Add counts one more.
	Add(sequence uint64) error
	// Of returns how many there were.
	Of(sequence uint64) uint64
}

// New returns a pipeline to the sink, which has the given time for an attempt.
func New(sink Sink, timeout time.Duration, retry Retry, metrics *Metrics, log *slog.Logger) *Pipeline {
	log = log.With("sink", sink.Name())
	return &Pipeline{
		sink: sink, timeout: timeout, retry: retry, metrics: metrics,
		report: reporter{log: log, metrics: metrics}, log: log,
	}
}

// Excuse has interruptions not count as attempts. It is called before Handle.
func (p *Pipeline) Excuse(i Interruptions) { p.interruptions = i }

// Returned notes that a message goes back without an attempt.
func (p *Pipeline) Returned(msg jetstream.Msg) {
	if meta, err := msg.Metadata(); err == nil {
		p.interrupted(meta.Sequence.Stream)
	}
}

func (p *Pipeline) interrupted(sequence uint64) {
	if p.interruptions == nil {
		return
	}
	if err := p.interruptions.Add(sequence); err != nil {
		p.log.Warn("an interruption counts as an attempt", "error", err, "stream_sequence", sequence)
	}
}

// attempts returns how many of a message's deliveries were attempts, this one
// included.
func (p *Pipeline) attempts(a attempt) uint64 {
	if p.interruptions == nil || a.number <= 1 {
		return a.number
	}
	return a.number - min(p.interruptions.Of(a.sequence), a.number-1)
}

// Handle makes one attempt to deliver the message, and settles it with
// JetStream. When the context ends, the attempt is broken off and the message
// goes back for others.
func (p *Pipeline) Handle(ctx context.Context, msg jetstream.Msg) {
	a, err := read(msg)
	v := verdict{result: Invalid}
	if err == nil {
		a.number = p.attempts(a)
		err = p.send(ctx, msg, a)
		v = p.retry.judge(err, a.number, time.Since(a.stored), rand.Float64())
	}
	if v.result == Interrupted {
		p.interrupted(a.sequence)
	}
	if err := settle(ctx, msg, v); err != nil {
		p.log.WarnContext(ctx, "event will come again", "error", err, "event_id", a.event.ID, "result", v.result)
	}
	p.report.report(ctx, a, v, err)
}
