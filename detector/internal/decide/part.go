package decide

import (
	"context"
	"errors"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/unloop/unloop/detector/internal/counter"
	"github.com/unloop/unloop/detector/internal/evaluate"
	"github.com/unloop/unloop/detector/internal/limit"
	"github.com/unloop/unloop/detector/internal/toolloop"
	"github.com/unloop/unloop/schemas/checkpb"
)

// part is one rule, counter or tool watch of a check, with its record.
type part struct {
	access evaluate.Access
	// idempotent says that the record has the ids of its hits, so that a repeated step counts
	// once.
	idempotent bool
	// budget is set if there may be no room for the part's record.
	budget *budget
	// counter is the moderated counter, nil for other parts; apart says that it does not add to
	// the count of several sessions.
	counter *checkpb.Counter
	apart   bool
	// start applies the part to its record and calls done once.
	start func(ctx context.Context, done func(error))
	// read evaluates the part without changing its record.
	read func(ctx context.Context) error
	evaluated
	// err is the fault of the part or of its write.
	err error
}

// evaluated has the result of a part's newest step.
type evaluated interface {
	// Verdict is all that Result needs.
	Verdict() any
	Result() evaluate.Result
}

// evaluation is how a part is evaluated.
type evaluation[S any] interface {
	Key() string
	Access() evaluate.Access
	Step(s S, now time.Time) (next S, ttl time.Duration)
	evaluated
}

// parts reads the parts of a check.
func (d *Decider) parts(check *checkpb.Check) []part {
	out := make([]part, 0, evaluate.Parts(check))
	for _, l := range check.GetLimits() {
		one, err := evaluate.NewLimit(check, l)
		if err == nil && evaluate.Lasts(l) {
			b := &budget{Limit: one, d: d, caller: check.GetIdentity().GetCaller()}
			one := newPart(d, d.Budgets, b, nil)
			one.budget = b
			out = append(out, one)
		} else {
			out = append(out, newPart(d, d.Limits, one, err))
		}
	}
	for _, c := range check.GetCounters() {
		out = append(out, d.counterPart(check, c))
	}
	for i := range out {
		out[i].idempotent = true
	}
	for _, w := range check.GetWatches() {
		one, err := evaluate.NewWatch(check, w)
		p := newPart(d, d.Sessions, one, err)
		if err == nil {
			p.start = func(ctx context.Context, done func(error)) {
				d.Sessions.StartBehind(ctx, one.Key(), func(s toolloop.State) (toolloop.State, time.Duration) { return one.Step(s, d.Now()) }, one.Behind, done)
			}
		}
		out = append(out, p)
	}
	return out
}

// counterPart reads a counter of a check.
func (d *Decider) counterPart(check *checkpb.Check, c *checkpb.Counter) part {
	c, judgement := d.Workloads.Moderate(check, c, d.Now())
	one, err := evaluate.NewCounter(check, c, judgement)
	var p part
	if d.Cooldowns == nil || err != nil {
		p = newPart(d, d.Counters, one, err)
	} else {
		p = newPart(d, d.Counters, restored{one, d.Cooldowns, one.Key()}, nil)
	}
	p.counter, p.apart = c, judgement.Apart
	return p
}

// handover returns a check with the part alone, which is number i of check. Its counter is not
// moderated again: only this detector knows the caller's traffic.
func (p *part) handover(check *checkpb.Check, i int) *checkpb.Check {
	only := evaluate.PartOf(check, i)
	if p.counter != nil {
		c := proto.CloneOf(p.counter)
		c.Opening = nil
		if p.apart {
			c.Together = nil
		}
		only.Counters = []*checkpb.Counter{c}
	}
	return only
}

// restored is a counter whose record may be gone although its cooldown is in force.
type restored struct {
	*evaluate.Counter
	cooldowns Cooldowns
	key       string
}

func (r restored) Key() string { return r.key }

func (r restored) Step(s counter.State, now time.Time) (counter.State, time.Duration) {
	return r.Counter.Step(r.cooldowns.Restore(r.key, s, now), now)
}

// recordSize is the size of a budget's record without its key, in bytes.
const recordSize = 512

// budget is a budget or circuit breaker. A new one for which there is no room counts its
// request alone; one that has a record keeps counting in it.
type budget struct {
	*evaluate.Limit
	d      *Decider
	caller string
	// fresh says that the last step found no record, and refused that there was no room for a
	// new one.
	fresh, refused bool
	// tight says that the bucket refused the record.
	tight bool
}

func (b *budget) Step(s limit.State, now time.Time) (limit.State, time.Duration) {
	next, ttl := b.Limit.Step(s, now)
	b.fresh = s.IsZero()
	if b.refused = ttl > 0 && b.fresh && b.Access() == evaluate.Write && !b.d.grant(b.caller, b.Key(), ttl, now); b.refused {
		return s, 0
	}
	return b.d.fit(next, b.tight), ttl
}

func (b *budget) Verdict() any            { b.count(); return b.Limit.Verdict() }
func (b *budget) Result() evaluate.Result { b.count(); return b.Limit.Result() }

func (b *budget) count() {
	if b.refused {
		b.d.Metrics.Unbudgeted.Inc()
	}
}

// grant reports whether there is room for a new budget that a caller begins.
func (d *Decider) grant(caller, key string, lasts time.Duration, now time.Time) bool {
	if d.Room == nil {
		return true
	}
	size := int64(len(key) + recordSize)
	if left, known := d.Room.Left(); known && !d.shares.grant(caller, size, left, lasts, now) {
		return false
	}
	return d.Room.Grant(size)
}

// fit returns the state of a budget, compact if its bucket is full.
func (d *Decider) fit(s limit.State, tight bool) limit.State {
	return s.Fit(tight || d.Room != nil && d.Room.Full())
}

// squeeze retries the write of a budget that its bucket refused, in compact form. A budget
// without a record counts its request alone.
func (p *part) squeeze(ctx context.Context, refused error) error {
	if !p.budget.fresh {
		p.budget.tight = true
		return wait(ctx, p.start)
	}
	err := p.read(ctx)
	if err == nil && !p.budget.fresh {
		err = refused
	}
	p.budget.refused = err == nil
	return err
}

// newPart returns a part whose records are kept in the given store.
func newPart[S any](d *Decider, records Records[S], one evaluation[S], err error) part {
	if err != nil {
		return part{err: errors.Join(evaluate.ErrMalformed, err)}
	}
	step := func(s S) (S, time.Duration) { return one.Step(s, d.Now()) }
	return part{
		access: one.Access(), evaluated: one,
		start: func(ctx context.Context, done func(error)) {
			records.Start(ctx, one.Key(), step, done)
		},
		read: func(ctx context.Context) error {
			s, err := records.Read(ctx, one.Key())
			if err == nil {
				step(s)
			}
			return err
		},
	}
}
