package detector

import (
	"context"
	"log/slog"
	"time"

	"github.com/unloop/unloop/detector/internal/comparing"
	"github.com/unloop/unloop/detector/internal/counter"
	"github.com/unloop/unloop/detector/internal/decide"
	"github.com/unloop/unloop/detector/internal/limit"
	"github.com/unloop/unloop/detector/internal/metrics"
	"github.com/unloop/unloop/detector/internal/recorder"
	"github.com/unloop/unloop/detector/internal/streak"
	"github.com/unloop/unloop/detector/internal/toolloop"
	"github.com/unloop/unloop/detector/internal/workload"
	"github.com/unloop/unloop/schemas/checkpb"
	"github.com/unloop/unloop/schemas/kit/ledger"
	"github.com/unloop/unloop/schemas/openloop"
	"github.com/unloop/unloop/schemas/semanticpb"
)

// Evaluator decides checks without a cluster, by the same code as a Detector. It keeps
// counters and incidents in memory. Time is that of its clock, so recorded traffic can
// be evaluated faster than it was made. It is not safe for concurrent use.
type Evaluator struct {
	decider   decide.Decider
	incidents *recorder.Memory
}

// Worker answers semantic requests as embedding workers do.
type Worker interface {
	Answer(context.Context, *semanticpb.SemanticRequest) *semanticpb.SemanticReply
}

// NewEvaluator returns an evaluator without any records. Without a worker it compares no
// texts. With one it waits for each comparison, however long that takes: a policy's
// budget is for requests that a client waits for.
func NewEvaluator(now func() time.Time, worker Worker) *Evaluator {
	e := &Evaluator{incidents: recorder.NewMemory()}
	e.decider = decide.Decider{
		Log: slog.New(slog.DiscardHandler), Now: now, Metrics: metrics.New(nil), Incidents: e.incidents, Workloads: workload.New(), InOrder: true,
		Counters: ledger.NewMemory[counter.State](now), Sessions: ledger.NewMemory[toolloop.State](now), Limits: ledger.NewMemory[limit.State](now), Budgets: ledger.NewMemory[limit.State](now),
		Publish: func(string, []byte) error { return nil }, // there are no gateways
	}
	if worker != nil {
		ask := func(_ context.Context, r *semanticpb.SemanticRequest) (*semanticpb.SemanticReply, error) {
			return worker.Answer(context.Background(), r), nil
		}
		e.decider.Semantic = comparing.New(ledger.NewMemory[streak.State](now), ask, e.incidents.Record, now, e.decider.Metrics, nil)
		e.decider.Semantic.Patient = true
	}
	return e
}

// Decide decides one check and counts it.
func (e *Evaluator) Decide(ctx context.Context, check *checkpb.Check) *checkpb.Decision {
	return e.decider.Decide(ctx, check)
}

// Apply applies what a gateway reports about a decided check: that the call got no
// answer, so that its next replay does not count, and corrections of estimated costs.
func (e *Evaluator) Apply(o *checkpb.Outcome) {
	_ = e.decider.Apply(context.Background(), o) // memory takes all
}

// Incidents returns the incidents so far, in the order in which they began.
func (e *Evaluator) Incidents() []openloop.Record { return e.incidents.Incidents() }
