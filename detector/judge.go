package detector

import (
	"context"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/unloop/unloop/detector/internal/counter"
	"github.com/unloop/unloop/detector/internal/limit"
	"github.com/unloop/unloop/detector/internal/recorder"
	"github.com/unloop/unloop/detector/internal/streak"
	"github.com/unloop/unloop/schemas/checkpb"
	"github.com/unloop/unloop/schemas/event"
	"github.com/unloop/unloop/schemas/kit/ledger"
	"github.com/unloop/unloop/schemas/semanticpb"
)

// Judge is a detector without a cluster: it decides checks by the same code,
// and keeps counters and incidents in memory. Time is what its clock says, so
// recorded traffic can be judged faster than it was made. It
// is not safe for concurrent use.
type Judge struct {
	detector  Detector
	incidents *recorder.Memory
}

// Worker answers semantic requests as embedding workers do.
type Worker interface {
	Answer(context.Context, *semanticpb.SemanticRequest) *semanticpb.SemanticReply
}

// NewJudge returns a judge that knows nothing yet. Without a worker it judges
// nothing by its meaning.
func NewJudge(now func() time.Time, worker Worker) *Judge {
	j := &Judge{incidents: recorder.NewMemory()}
	j.detector = Detector{
		cfg: DefaultConfig(), log: slog.New(slog.DiscardHandler), now: now, metrics: newMetrics(prometheus.NewRegistry()),
		counters: ledger.NewMemory[counter.State](now), sessions: ledger.NewMemory[session](now), limits: ledger.NewMemory[limit.State](now),
		record: j.incidents.Record, openLoop: j.incidents.Open, resolve: j.incidents.Resolve,
		publish: func(string, []byte) error { return nil }, // there is nobody to be told
	}
	if worker != nil {
		j.detector.semantics = patient(now, worker)
	}
	return j
}

// patient asks a worker of its own and waits for each verdict, however long that
// takes: a policy's budget is for requests that somebody waits for.
func patient(now func() time.Time, worker Worker) *semantics {
	s := measured(prometheus.NewRegistry())
	s.streaks, s.patient = ledger.NewMemory[streak.State](now), true
	s.ask = func(r *semanticpb.SemanticRequest, done func(*semanticpb.SemanticReply, error)) {
		done(worker.Answer(context.Background(), r), nil)
	}
	return s
}

// Decide decides one check and counts it.
func (j *Judge) Decide(ctx context.Context, check *checkpb.Check) *checkpb.Decision {
	decided := make(chan *checkpb.Decision, 1)
	j.detector.decide(ctx, check, func(d *checkpb.Decision) { decided <- d })
	j.detector.working.Wait() // a verdict that the request does not wait for is there for the next
	return <-decided
}

// Settle takes in what became of a decided check, as gateways tell it: that it
// came to nothing, so that its next replay does not count, and what estimates were
// wrong by.
func (j *Judge) Settle(o *checkpb.Outcome) {
	done := make(chan struct{})
	j.detector.settle(o, func() { close(done) })
	<-done
}

// Incidents returns what was found so far, in the order in which it began.
func (j *Judge) Incidents() []event.Incident { return j.incidents.Incidents() }
