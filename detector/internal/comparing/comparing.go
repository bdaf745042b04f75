// Package comparing asks embedding workers to compare the texts of requests with earlier
// ones, applies their comparisons to the streak of the scope, and returns findings.
//
// It does not know how texts are compared or what else is decided about a request. A
// comparison that comes too late for its request applies to the scope's next one.
package comparing

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/unloop/unloop/detector/internal/incident"
	"github.com/unloop/unloop/detector/internal/metrics"
	"github.com/unloop/unloop/detector/internal/streak"
	"github.com/unloop/unloop/schemas"
	"github.com/unloop/unloop/schemas/checkpb"
	"github.com/unloop/unloop/schemas/kit/ledger"
	"github.com/unloop/unloop/schemas/kit/metric"
	"github.com/unloop/unloop/schemas/kit/natskit"
	"github.com/unloop/unloop/schemas/kit/spare"
	"github.com/unloop/unloop/schemas/kit/tracing"
	"github.com/unloop/unloop/schemas/semanticpb"
)

const (
	// AnswerTimeout is how long a comparison is of use: it then applies to the scope's
	// next request.
	AnswerTimeout = 3 * time.Second
	// noteTimeout bounds how long the write of a streak waits until the workers know of it.
	noteTimeout = 250 * time.Millisecond
	// awayFor is how long no worker is asked after a request found none.
	awayFor = 250 * time.Millisecond
	// maxAsked bounds the comparisons in flight; further requests pass without one.
	maxAsked = 4096
)

// Worker asks an embedding worker and waits for its answer until the end of the context,
// which brings the trace.
type Worker func(context.Context, *semanticpb.SemanticRequest) (*semanticpb.SemanticReply, error)

// Streaks are the records of scopes.
type Streaks interface {
	Start(ctx context.Context, key string, step ledger.Step[streak.State], done func(error))
	Apply(ctx context.Context, key string, step ledger.Step[streak.State]) error
	Read(ctx context.Context, key string) (streak.State, error)
}

// Comparer gets comparisons of texts. Make it with New.
type Comparer struct {
	Streaks Streaks
	worker  Worker
	record  func(context.Context, ...incident.Finding) (loopID string, err error)
	now     func() time.Time
	// Patient makes each request wait for its comparison, however long that takes.
	Patient bool
	// Goroutines run comparisons; nil for new ones.
	Goroutines *spare.Goroutines

	// asked is the number of comparisons in flight.
	asked atomic.Int64
	// away is the time until which no worker is asked, in Unix nanoseconds.
	away    atomic.Int64
	working sync.WaitGroup

	metrics *metrics.Metrics
	results *prometheus.CounterVec
	seconds prometheus.Histogram
}

// New returns a comparer that records findings with record.
func New(streaks Streaks, worker Worker, record func(context.Context, ...incident.Finding) (string, error), now func() time.Time, m *metrics.Metrics, reg prometheus.Registerer) *Comparer {
	return &Comparer{
		Streaks: streaks, worker: worker, record: record, now: now, metrics: m,
		results: metric.Counters(reg, "unloop_detector_semantic_checks_total",
			"Semantic checks by result: detected, clear, short (not judged), late (applies to the next request), retry, or the reason why the request passed unjudged; unnoted means that the workers do not know of a streak.", "result"),
		seconds: metric.Histogram(reg, "unloop_detector_semantic_seconds", "Time until an embedding worker answered.",
			[]float64{.00025, .0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5}),
	}
}

// AskOver returns the workers that answer on NATS.
func AskOver(inbox *natskit.Inbox) Worker {
	return func(ctx context.Context, r *semanticpb.SemanticRequest) (*semanticpb.SemanticReply, error) {
		return natskit.Call[semanticpb.SemanticReply](ctx, inbox, &nats.Msg{Subject: schemas.SubjectSemantic, Header: tracing.ToNATS(ctx)}, r)
	}
}

// begin runs a part of a comparison in a goroutine; Wait waits for it.
func (c *Comparer) begin(run func()) {
	c.working.Add(1)
	c.Goroutines.Go(func() {
		defer c.working.Done()
		run()
	})
}

// Wait returns when no comparison is in flight.
func (c *Comparer) Wait() { c.working.Wait() }

// count counts a comparison by its result.
func (c *Comparer) count(result string) { c.results.WithLabelValues(result).Inc() }

// Result is what a decision takes from one semantic watch.
type Result struct {
	// Finding is nil for none.
	Finding *checkpb.Finding
	// Missed says that the request passed without a comparison.
	Missed bool
}

// query is a comparison that a request may wait for.
type query struct {
	received     time.Time
	id, replaces string

	mu sync.Mutex
	// answered says that the request has its result, with or without the comparison.
	answered bool
	result   Result
}

// answer sets what the request gets. If that is set already, it returns the earlier result and
// false.
func (q *query) answer(r Result) (Result, bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.answered {
		return q.result, false
	}
	q.answered, q.result = true, r
	return r, true
}

func (q *query) isAnswered() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.answered
}
