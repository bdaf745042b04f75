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

// Interruptions counts, by stream sequence, how often an event was returned because
// its notifier stopped. JetStream counts such deliveries like any other.
type Interruptions interface {
	// Add adds one.
	Add(sequence uint64) error
	// Of returns the count.
	Of(sequence uint64) uint64
}

// New returns a pipeline to the sink. timeout limits one attempt.
func New(sink Sink, timeout time.Duration, retry Retry, metrics *Metrics, log *slog.Logger) *Pipeline {
	log = log.With("sink", sink.Name())
	return &Pipeline{
		sink: sink, timeout: timeout, retry: retry, metrics: metrics,
		report: reporter{log: log, metrics: metrics}, log: log,
	}
}

// Excuse makes the pipeline subtract interruptions from the number of attempts. Call
// it before Handle.
func (p *Pipeline) Excuse(i Interruptions) { p.interruptions = i }

// Returned records that a message was returned without an attempt.
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
		p.log.Warn("interruption not recorded; it counts as an attempt", "error", err, "stream_sequence", sequence)
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

// Handle makes one attempt to deliver the message, and acknowledges it to
// JetStream. When the context ends, the attempt is aborted and the message is
// returned for other notifiers.
func (p *Pipeline) Handle(ctx context.Context, msg jetstream.Msg) {
	a, err := read(msg)
	v := disposition{result: Invalid}
	if err == nil {
		a.number = p.attempts(a)
		err = p.send(ctx, msg, a)
		v = p.retry.decide(err, a.number, time.Since(a.stored), rand.Float64())
	}
	if v.result == Interrupted {
		p.interrupted(a.sequence)
	}
	if err := acknowledge(ctx, msg, v); err != nil {
		p.log.WarnContext(ctx, "event will come again", "error", err, "event_id", a.event.ID, "result", v.result)
	}
	p.report.report(ctx, a, v, err)
}
