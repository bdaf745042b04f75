package detector

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/unloop/unloop/detector/internal/decide"
	"github.com/unloop/unloop/schemas/checkpb"
	"github.com/unloop/unloop/schemas/kit/natskit"
)

// batchDelay is how long a decision that took a comparison of texts waits for others of the
// same message, to share a reply with them.
const batchDelay = 500 * time.Microsecond

// comparingDelay is the time after which a gateway is told that only comparisons are left.
const comparingDelay = 2 * time.Millisecond

// answer decides the checks of one message. Decisions that need no comparison of texts are sent
// as soon as all writes are stored, the others as they are made. A gateway that takes no parts
// gets all of them together.
type answer struct {
	d      *Detector
	req    natskit.Request
	batch  *checkpb.CheckBatch
	checks []*decide.Check
	spans  []trace.Span // nil without traces
	ctx    context.Context
	cancel context.CancelFunc
	late   *time.Timer

	// sending is held while a part is sent, so that the last one is sent last.
	sending sync.Mutex
	sent    bool

	mu        sync.Mutex
	decisions []*checkpb.Decision
	// ready are the indexes of decisions that were made and not sent yet.
	ready []uint32
	left  int
	over  bool
}

// start starts the writes of all checks of a batch, and answers the batch when they are stored.
func (d *Detector) start(req natskit.Request, batch *checkpb.CheckBatch) {
	n := len(batch.GetChecks())
	a := &answer{d: d, req: req, batch: batch, checks: make([]*decide.Check, n), decisions: make([]*checkpb.Decision, n), left: n, spans: d.startSpans(batch)}
	until := time.Now().Add(budget(batch.GetBudgetMs()))
	a.ctx, a.cancel = context.WithTimeout(context.Background(), budget(max(batch.GetBudgetMs(), batch.GetPatienceMs())))
	var open atomic.Int64
	open.Store(int64(n) + 1)
	written := func() {
		if open.Add(-1) == 0 {
			a.conclude()
		}
	}
	for i, check := range batch.GetChecks() {
		a.checks[i] = d.decider.Start(a.ctx, check, written)
		a.checks[i].CompareUntil = until
	}
	written()
}

// conclude decides all checks once their writes are stored. Goroutines decide those that wait
// for something else.
func (a *answer) conclude() {
	var waiting []int
	for i, check := range a.checks {
		if check.Waits() {
			waiting = append(waiting, i)
		} else {
			a.decide(i)
		}
	}
	if len(waiting) == 0 {
		a.send()
		return
	}
	if a.batch.GetParts() && len(a.checks) > 1 {
		if len(waiting) < len(a.checks) {
			a.send()
		} else {
			a.late = time.AfterFunc(comparingDelay, a.send) // lets the gateway send more meanwhile
		}
	}
	for _, i := range waiting {
		a.d.goroutines.Go(func() { a.finish(i) })
	}
}

// finish decides a check that has to wait.
func (a *answer) finish(i int) {
	if left := a.decide(i); left == 0 {
		a.send()
	} else if a.batch.GetParts() {
		a.sendLater()
	}
}

// decide decides a check and returns the number of undecided ones.
func (a *answer) decide(i int) (left int) {
	var decision *checkpb.Decision
	if a.spans == nil {
		decision = a.checks[i].Decide(a.ctx)
	} else {
		decision = decideTraced(a.ctx, a.checks[i], a.spans[i])
	}
	if check := a.batch.GetChecks()[i]; !check.GetPeek() && !check.GetProbe() {
		a.d.metrics.Found(decision.GetFindings())
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.decisions[i], a.ready = decision, append(a.ready, uint32(i))
	a.left--
	return a.left
}

// sendLater sends the first decision that is ready after batchDelay, with those made until
// then.
func (a *answer) sendLater() {
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.ready) == 1 {
		time.AfterFunc(batchDelay, a.send)
	}
}

// send sends the decisions that are ready, and ends the message with the last one.
func (a *answer) send() {
	a.sending.Lock()
	defer a.sending.Unlock()
	part, ok := a.take()
	if !ok {
		return
	}
	a.d.reply(a.req, part)
	a.sent = true
	if part.GetMore() {
		return
	}
	if a.late != nil {
		a.late.Stop()
	}
	a.cancel()
	a.d.leave()
}

// take returns the next part of the answer; false if there is nothing to send.
func (a *answer) take() (part *checkpb.DecisionBatch, ok bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.over || a.left > 0 && (!a.batch.GetParts() || len(a.ready) == 0 && a.sent) {
		return nil, false
	}
	a.over = a.left == 0
	if len(a.ready) == len(a.checks) {
		return &checkpb.DecisionBatch{Decisions: a.decisions}, true
	}
	part = &checkpb.DecisionBatch{Checks: a.ready, More: !a.over, Decisions: make([]*checkpb.Decision, len(a.ready))}
	for n, i := range a.ready {
		part.Decisions[n] = a.decisions[i]
	}
	a.ready = nil
	return part, true
}
