package detector

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"google.golang.org/protobuf/proto"

	"github.com/unloop/unloop/detector/internal/decide"
	"github.com/unloop/unloop/detector/internal/evaluate"
	"github.com/unloop/unloop/schemas/checkpb"
	"github.com/unloop/unloop/schemas/kit/ledger"
	"github.com/unloop/unloop/schemas/kit/natskit"
)

// enter takes one of the detector's slots, if one is free.
func (d *Detector) enter() bool {
	select {
	case d.slots <- struct{}{}:
		return true
	default:
		d.metrics.Overloaded.Inc()
		return false
	}
}

func (d *Detector) leave() { <-d.slots }

// run answers a request in a goroutine of its own, if a slot is free, else with refusal.
func (d *Detector) run(req natskit.Request, work func() proto.Message, refusal proto.Message) {
	if !d.enter() {
		d.reply(req, refusal)
		return
	}
	go func() {
		defer d.leave()
		d.reply(req, work())
	}()
}

func (d *Detector) reply(req natskit.Request, answer proto.Message) {
	if !req.Expected() {
		return
	}
	body, err := proto.Marshal(answer)
	if err == nil {
		err = req.Respond(body)
	}
	if err != nil {
		d.metrics.Unanswered.Inc()
	}
}

// read decodes a message.
func (d *Detector) read(data []byte, into proto.Message) bool {
	if err := proto.Unmarshal(data, into); err != nil {
		d.metrics.Malformed.Inc()
		return false
	}
	return true
}

// onCheck decides a batch of checks. A batch that can't be read gets no answer.
func (d *Detector) onCheck(req natskit.Request) {
	var batch checkpb.CheckBatch
	if !d.read(req.Data, &batch) {
		return
	}
	if !d.enter() {
		d.reply(req, refuse(&batch, decide.ErrorOverloaded))
		return
	}
	d.start(&batch, func(decisions *checkpb.DecisionBatch) {
		d.reply(req, decisions)
		d.leave()
	})
}

// onRemoteCheck is onCheck for batches from other processes. A batch that may have
// waited through a stall is refused, since its gateway may have asked another detector
// meanwhile. Reports are taken, since they go to one detector only.
func (d *Detector) onRemoteCheck(req natskit.Request) {
	if !req.Expected() || !d.heart.Stalled() {
		d.onCheck(req)
		return
	}
	var batch checkpb.CheckBatch
	if !d.read(req.Data, &batch) {
		return
	}
	d.metrics.Stalled.Inc()
	refusal := refuse(&batch, checkpb.ErrorStalled)
	d.run(req, func() proto.Message {
		d.heart.Await() // a gateway that asks again before would be refused again
		return refusal
	}, refusal)
}

func refuse(batch *checkpb.CheckBatch, why string) *checkpb.DecisionBatch {
	out := &checkpb.DecisionBatch{Decisions: make([]*checkpb.Decision, len(batch.GetChecks()))}
	for i := range out.Decisions {
		out.Decisions[i] = &checkpb.Decision{Error: why}
	}
	return out
}

// start begins with all checks of a batch and calls done with the decisions: at once
// when the last write is stored, unless one of the decisions waits for more.
func (d *Detector) start(batch *checkpb.CheckBatch, done func(*checkpb.DecisionBatch)) {
	until := time.Now().Add(d.budget(batch.GetBudgetMs()))
	ctx, cancel := context.WithTimeout(context.Background(), d.budget(max(batch.GetBudgetMs(), batch.GetPatienceMs())))
	checks := make([]*decide.Check, len(batch.GetChecks()))
	var open atomic.Int64
	open.Store(int64(len(checks)) + 1)
	finish := func() {
		defer cancel()
		done(d.decideAll(ctx, batch, checks))
	}
	written := func() {
		switch {
		case open.Add(-1) > 0:
		case slices.ContainsFunc(checks, (*decide.Check).Waits):
			go finish()
		default:
			finish()
		}
	}
	for i, check := range batch.GetChecks() {
		checks[i] = d.decider.Start(ctx, check, written)
		checks[i].CompareUntil = until
	}
	written()
}

// decideAll decides the checks of a batch, at once those that wait for something.
func (d *Detector) decideAll(ctx context.Context, batch *checkpb.CheckBatch, checks []*decide.Check) *checkpb.DecisionBatch {
	out := &checkpb.DecisionBatch{Decisions: make([]*checkpb.Decision, len(checks))}
	decideOne := func(i int) {
		out.Decisions[i] = checks[i].Decide(ctx)
		if check := batch.GetChecks()[i]; !check.GetPeek() && !check.GetProbe() {
			d.metrics.Found(out.Decisions[i].GetFindings())
		}
	}
	var waiting sync.WaitGroup
	for i, check := range checks {
		if len(checks) > 1 && check.Waits() {
			waiting.Go(func() { decideOne(i) })
		} else {
			decideOne(i)
		}
	}
	waiting.Wait()
	return out
}

// budget returns the time for a message whose sender waits for so many milliseconds.
func (d *Detector) budget(ms uint32) time.Duration {
	if budget := time.Duration(ms) * time.Millisecond; 0 < budget && budget < d.cfg.MaxBudget {
		return budget
	}
	return d.cfg.MaxBudget
}

// onHandover counts what another detector handed over. It is handed over no further.
func (d *Detector) onHandover(req natskit.Request) {
	var h checkpb.Handover
	if !d.read(req.Data, &h) {
		return
	}
	if !evaluate.Bounded(h.GetCheck()) {
		d.metrics.Malformed.Inc()
		return
	}
	d.run(req, func() proto.Message {
		ctx, cancel := context.WithTimeout(ledger.Stay(context.Background()), d.budget(h.GetBudgetMs()))
		defer cancel()
		if h.GetOutcome() != nil {
			d.decider.Apply(ctx, h.GetOutcome())
			return &checkpb.Decision{}
		}
		return d.decider.Count(ctx, h.GetCheck())
	}, &checkpb.Decision{Error: decide.ErrorOverloaded})
}

// onOutcome applies what a gateway reports about decided checks.
func (d *Detector) onOutcome(req natskit.Request) {
	var o checkpb.Outcome
	if !d.read(req.Data, &o) || !d.enter() {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), d.cfg.MaxBudget)
	started := d.decider.StartOutcome(ctx, &o) // before the call is made again
	go func() {
		defer d.leave()
		defer cancel()
		started.Finish(ctx)
	}()
}

// onRelease releases a loop for an operator.
func (d *Detector) onRelease(req natskit.Request) {
	var r checkpb.ReleaseRequest
	if d.read(req.Data, &r) {
		d.run(req, func() proto.Message { return d.releaser.Release(r.GetLoopId()) }, &checkpb.ReleaseReply{Error: decide.ErrorOverloaded})
	}
}

// onForget forgets a loop that another detector releases.
func (d *Detector) onForget(m *nats.Msg) {
	var f checkpb.Forget
	if d.read(m.Data, &f) {
		d.releaser.Forget(&f)
	}
}
