package detector

import (
	"context"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/unloop/unloop/detector/internal/counter"
	"github.com/unloop/unloop/detector/internal/incident"
	"github.com/unloop/unloop/detector/internal/limit"
	"github.com/unloop/unloop/schemas/checkpb"
	"github.com/unloop/unloop/schemas/event"
	"github.com/unloop/unloop/schemas/kit/ledger"
)

// Judge is a detector without a cluster: it decides checks by the same code,
// and keeps counters and incidents in memory. Time is what its clock says, so
// recorded traffic can be judged faster than it was made. Rules go by the estimates
// that a check brings: what answers cost in the end is not told. It is not safe for
// concurrent use.
type Judge struct {
	detector  Detector
	incidents *incident.Memory
}

// NewJudge returns a judge that knows nothing yet.
func NewJudge(now func() time.Time) *Judge {
	j := &Judge{incidents: incident.NewMemory()}
	j.detector = Detector{
		cfg: DefaultConfig(), log: slog.New(slog.DiscardHandler), now: now, metrics: newMetrics(prometheus.NewRegistry()),
		counters: ledger.NewMemory[counter.State](now), sessions: ledger.NewMemory[session](now), limits: ledger.NewMemory[limit.State](now),
		record: j.incidents.Record, openLoop: j.incidents.Open,
		publish: func(string, []byte) error { return nil }, // there is nobody to be told
	}
	return j
}

// Decide decides one check and counts it.
func (j *Judge) Decide(ctx context.Context, check *checkpb.Check) *checkpb.Decision {
	decided := make(chan *checkpb.Decision, 1)
	j.detector.decide(ctx, check, func(d *checkpb.Decision) { decided <- d })
	return <-decided
}

// Excuse notes that a decided check came to nothing: its next replay does not
// count.
func (j *Judge) Excuse(check *checkpb.Check) {
	done := make(chan struct{})
	j.detector.settle(checkpb.OutcomeOf(check), func() { close(done) })
	<-done
}

// Incidents returns what was found so far, in the order in which it began.
func (j *Judge) Incidents() []event.Incident { return j.incidents.Incidents() }
