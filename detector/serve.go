package detector

import (
	"cmp"
	"context"
	"time"

	"github.com/nats-io/nats.go"
	"google.golang.org/protobuf/proto"

	"github.com/unloop/unloop/detector/internal/decide"
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

// run answers a request in a goroutine if a slot is free, and otherwise with refusal.
func (d *Detector) run(req natskit.Request, work func() proto.Message, refusal proto.Message) {
	if !d.enter() {
		d.reply(req, refusal)
		return
	}
	d.goroutines.Go(func() {
		defer d.leave()
		d.reply(req, work())
	})
}

func (d *Detector) reply(req natskit.Request, answer proto.Message) {
	if !req.Expected() {
		return
	}
	if err := req.Answer(answer); err != nil {
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
	batch, err := natskit.Message[checkpb.CheckBatch](req)
	if err != nil {
		d.metrics.Malformed.Inc()
		return
	}
	if !d.enter() {
		d.reply(req, refuse(batch, decide.ErrorOverloaded))
		return
	}
	if d.deps.Traces != nil {
		batch = proto.CloneOf(batch) // its checks get spans of their own, and may belong to the gateway
	}
	d.start(req, batch)
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

// maxBudget bounds the time for one check, whatever its sender asks for; defaultBudget is
// for senders that do not say.
const maxBudget, defaultBudget = time.Minute, 2 * time.Second

// budget returns the time for a message whose sender waits for ms milliseconds.
func budget(ms uint32) time.Duration {
	return min(cmp.Or(time.Duration(ms)*time.Millisecond, defaultBudget), maxBudget)
}

// outcomeTime is how long a detector tries to store an outcome. No client waits for it;
// afterwards the outcome is lost.
const outcomeTime = 5 * time.Second

// onHandover applies a step that another detector handed over. It is handed over no
// further.
func (d *Detector) onHandover(req natskit.Request) {
	var h checkpb.Handover
	if !d.read(req.Data, &h) {
		return
	}
	within := budget(h.GetBudgetMs())
	if h.GetOutcome() != nil {
		within = outcomeTime
	}
	d.run(req, func() proto.Message {
		ctx, cancel := context.WithTimeout(ledger.Stay(context.Background()), within)
		defer cancel()
		if h.GetOutcome() != nil {
			return d.decider.StepOutcome(ctx, h.GetOutcome())
		}
		return d.decider.Step(ctx, h.GetCheck())
	}, &checkpb.HandoverReply{Error: decide.ErrorOverloaded})
}

// onOutcome applies what a gateway reports about decided checks.
func (d *Detector) onOutcome(req natskit.Request) {
	var o checkpb.Outcome
	if !d.read(req.Data, &o) || !d.enter() {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), outcomeTime)
	started := d.decider.StartOutcome(ctx, &o) // before the call is made again
	d.goroutines.Go(func() {
		defer d.leave()
		defer cancel()
		_ = started.Finish(ctx)           // counted in a metric
		d.reply(req, &checkpb.Decision{}) // the gateway may ask about the call again
	})
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
