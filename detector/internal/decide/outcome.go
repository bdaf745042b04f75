package decide

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/nats-io/nuid"
	"google.golang.org/protobuf/proto"

	"github.com/unloop/unloop/detector/internal/evaluate"
	"github.com/unloop/unloop/detector/internal/hitid"
	"github.com/unloop/unloop/detector/internal/limit"
	"github.com/unloop/unloop/schemas/checkpb"
	"github.com/unloop/unloop/schemas/kit/ledger"
)

// update is one update of a record by an outcome.
type update struct {
	start func(ctx context.Context, done func(error))
	// handover is what the detector that owns the record is sent.
	handover *checkpb.Handover
	// idempotent says that the update can be retried even if it may have been made.
	idempotent bool
	err        error
}

// Outcome is what a gateway reports about a decided check, with writes that have begun.
// Make it with StartOutcome.
type Outcome struct {
	d       *Decider
	updates []update
	writes  sync.WaitGroup
}

// StartOutcome starts the writes of an outcome without waiting for them: it excuses counters
// and texts whose call got no answer, and corrects estimated costs.
func (d *Decider) StartOutcome(ctx context.Context, o *checkpb.Outcome) *Outcome {
	out := &Outcome{d: d, updates: d.updates(o)}
	for i := range out.updates {
		if u := &out.updates[i]; u.err == nil {
			out.writes.Add(1)
			u.start(ctx, func(err error) {
				u.err = err
				out.writes.Done()
			})
		}
	}
	return out
}

// Apply applies an outcome, waits for its writes, and returns the error for what was not
// written.
func (d *Decider) Apply(ctx context.Context, o *checkpb.Outcome) error {
	return d.StartOutcome(ctx, o).Finish(ctx)
}

// Finish waits for the writes. Updates of records that belong to another detector are
// made there.
func (o *Outcome) Finish(ctx context.Context) error {
	o.writes.Wait()
	faults := make([]error, len(o.updates))
	o.d.each(len(o.updates), func(i int) {
		if faults[i] = o.d.finishUpdate(ctx, &o.updates[i]); faults[i] != nil {
			o.d.Metrics.Uncounted.Inc()
		}
	})
	return errors.Join(faults...)
}

// retryPause is the pause before an update is retried.
const retryPause = 50 * time.Millisecond

// finishUpdate hands an update to the detector that owns the record, if that is another one. It
// retries an idempotent update until the context ends.
func (d *Decider) finishUpdate(ctx context.Context, u *update) error {
	err := d.handOver(ctx, u)
	for err != nil && u.idempotent && !errors.Is(err, evaluate.ErrMalformed) {
		select {
		case <-ctx.Done():
			return err
		case <-time.After(retryPause):
			err = wait(ledger.Stay(ctx), u.start)
		}
	}
	return err
}

func (d *Decider) handOver(ctx context.Context, u *update) error {
	elsewhere, ok := errors.AsType[*ledger.ElsewhereError](u.err)
	if !ok {
		return u.err
	}
	if _, gone, err := d.send(ctx, elsewhere.Owner, u.handover); !gone {
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
	for _, c := range o.GetCorrections() {
		if c.GetHit() == "" {
			c = proto.CloneOf(c)
			c.Hit = newHit()
		}
		correct, err := evaluate.Correct(c)
		records := d.Limits
		if evaluate.Lasts(c.GetLimit()) {
			records = d.Budgets
			step := correct.Step
			correct.Step = func(s limit.State, now time.Time) (limit.State, time.Duration) {
				next, ttl := step(s, now)
				return d.fit(next, false), ttl
			}
		}
		one := newUpdate(d, records, correct, err, &checkpb.Outcome{Corrections: []*checkpb.Correction{c}})
		one.idempotent = true
		all = append(all, one)
	}
	for _, w := range o.GetSemantics() {
		if excuse, ok := evaluate.ExcuseText(w, o.GetText()); ok && d.Semantic != nil {
			all = append(all, update{start: func(ctx context.Context, done func(error)) { d.Semantic.Excuse(ctx, w, excuse, done) }})
		}
	}
	return all
}

// newHit returns an id for an update of a record.
func newHit() string {
	id := nuid.Next()
	return id[len(id)-hitid.IDSize:]
}

func newUpdate[S any](d *Decider, records Records[S], u evaluate.Update[S], err error, part *checkpb.Outcome) update {
	return update{err: err, handover: &checkpb.Handover{Outcome: part}, start: func(ctx context.Context, done func(error)) {
		records.Start(ctx, u.Key, func(s S) (S, time.Duration) { return u.Step(s, d.Now()) }, done)
	}}
}
