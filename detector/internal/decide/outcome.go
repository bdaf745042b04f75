package decide

import (
	"context"
	"errors"
	"time"

	"github.com/unloop/unloop/detector/internal/evaluate"
	"github.com/unloop/unloop/schemas/checkpb"
	"github.com/unloop/unloop/schemas/kit/ledger"
)

// update is one update of a record that an outcome asks for.
type update struct {
	start func(ctx context.Context, done func(error))
	// handover is what the detector that owns the record is sent.
	handover *checkpb.Handover
	err      error
}

// Apply applies what a gateway reports about a decided check: counters and texts whose
// call got no answer are excused, and estimated costs are corrected.
func (d *Decider) Apply(ctx context.Context, o *checkpb.Outcome) {
	updates := d.updates(o)
	d.each(len(updates), func(i int) {
		if d.update(ctx, &updates[i]) != nil {
			d.Metrics.Uncounted.Inc()
		}
	})
}

// update makes one update here or, if the record belongs to another detector, there.
func (d *Decider) update(ctx context.Context, u *update) error {
	if u.err != nil {
		return u.err
	}
	err := wait(ctx, u.start)
	elsewhere, ok := errors.AsType[*ledger.ElsewhereError](err)
	if !ok {
		return err
	}
	if _, gone, err := d.Peers.Send(ctx, elsewhere.Owner, u.handover); !gone {
		return err
	}
	return wait(ledger.Stay(ctx), u.start)
}

// updates reads the updates of an outcome.
func (d *Decider) updates(o *checkpb.Outcome) (all []update) {
	for i, c := range o.GetCounters() {
		excuse, err := evaluate.Excuse(c, o.GetAborted())
		all = append(all, newUpdate(d, d.Counters, excuse, err, &checkpb.Outcome{Counters: o.GetCounters()[i : i+1], Aborted: o.GetAborted()}))
	}
	for i, c := range o.GetCorrections() {
		correct, err := evaluate.Correct(c)
		all = append(all, newUpdate(d, d.Limits, correct, err, &checkpb.Outcome{Corrections: o.GetCorrections()[i : i+1]}))
	}
	for _, w := range o.GetSemantics() {
		if excuse, ok := evaluate.ExcuseText(w, o.GetText()); ok && d.Semantic != nil {
			all = append(all, newUpdate(d, d.Semantic.Streaks, excuse, nil, nil))
		}
	}
	return all
}

func newUpdate[S any](d *Decider, records Records[S], u evaluate.Update[S], err error, part *checkpb.Outcome) update {
	return update{err: err, handover: &checkpb.Handover{Outcome: part}, start: func(ctx context.Context, done func(error)) {
		records.Start(ctx, u.Key, func(s S) (S, time.Duration) { return u.Step(s, d.Now()) }, done)
	}}
}
