// Package decide decides checks: it applies each part of a check to its stored record, all
// at once, and then records findings, starts cooldowns and asks for comparisons of texts.
// It also applies the gateways' reports about decided checks.
//
// It does not know how a part is evaluated, what records are kept in, or how checks
// arrive.
package decide

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/unloop/unloop/detector/internal/comparing"
	"github.com/unloop/unloop/detector/internal/counter"
	"github.com/unloop/unloop/detector/internal/evaluate"
	"github.com/unloop/unloop/detector/internal/incident"
	"github.com/unloop/unloop/detector/internal/limit"
	"github.com/unloop/unloop/detector/internal/metrics"
	"github.com/unloop/unloop/detector/internal/toolloop"
	"github.com/unloop/unloop/detector/internal/workload"
	"github.com/unloop/unloop/schemas"
	"github.com/unloop/unloop/schemas/checkpb"
	"github.com/unloop/unloop/schemas/event"
	"github.com/unloop/unloop/schemas/kit/ledger"
	"github.com/unloop/unloop/schemas/kit/natskit"
)

// The texts of Decision.error.
const (
	ErrorOverloaded = checkpb.ErrorOverloaded
	errorMalformed  = "check malformed"
	errorUncounted  = "not counted"
)

// Records are stored records: a ledger in JetStream, or in memory.
type Records[S any] interface {
	Start(ctx context.Context, key string, step ledger.Step[S], done func(error))
	Read(ctx context.Context, key string) (S, error)
}

// Sessions are records whose steps can be answered before they are stored.
type Sessions interface {
	Records[toolloop.State]
	// StartBehind is Start that may call done before the step is stored, if behind returns
	// true after the step.
	StartBehind(ctx context.Context, key string, step ledger.Step[toolloop.State], behind func() bool, done func(error))
}

// Incidents record findings.
type Incidents interface {
	// Record records findings of one incident.
	Record(context.Context, ...incident.Finding) (loopID string, err error)
	Open(incident.Finding) (loopID string)
	Resolve(ctx context.Context, f incident.Finding, reason string) error
}

// Cooldowns keep standing cooldowns apart from the counters.
type Cooldowns interface {
	// Restore returns the state with the cooldowns that stand, if its record is gone.
	Restore(key string, s counter.State, now time.Time) counter.State
	// Keep stores a cooldown that begins.
	Keep(*evaluate.Cooldown)
}

// Peers are the other detectors.
type Peers interface {
	// Send hands a step to the detector that owns its record. Gone says that the
	// detector was not reached, so that it has counted nothing.
	Send(ctx context.Context, owner string, h *checkpb.Handover) (r *checkpb.HandoverReply, gone bool, err error)
}

// Room is the room of the bucket of budgets.
type Room interface {
	// Grant takes room for a new record of a size in bytes, and returns false if there is
	// none.
	Grant(size int64) bool
	// Left returns the room in bytes; false if it is not known.
	Left() (int64, bool)
	// Full reports whether records should not grow.
	Full() bool
}

// Decider decides checks.
type Decider struct {
	Log       *slog.Logger
	Now       func() time.Time
	Metrics   *metrics.Metrics
	Counters  Records[counter.State]
	Sessions  Sessions
	Limits    Records[limit.State] // token buckets
	Budgets   Records[limit.State] // budgets and circuit breakers
	Room      Room                 // of budgets; nil where it has no bound
	Incidents Incidents
	Semantic  *comparing.Comparer // nil where no worker can be asked
	Workloads *workload.Memory
	Cooldowns Cooldowns // nil where counters are never evicted
	Peers     Peers     // nil where no other detector writes the records
	Publish   func(subject string, body []byte) error
	// InOrder evaluates one thing after the other, so that the results of recorded
	// traffic do not depend on scheduling.
	InOrder bool

	shares shares // of the bucket of budgets
}

// each calls f concurrently for 0 to n-1, and waits.
func (d *Decider) each(n int, f func(i int)) {
	if n == 1 || d.InOrder {
		for i := range n {
			f(i)
		}
		return
	}
	var running sync.WaitGroup
	for i := range n {
		running.Go(func() { f(i) })
	}
	running.Wait()
}

// Check is a check whose writes have begun. Make it with Start.
type Check struct {
	// CompareUntil is the deadline for comparisons of texts; if zero, that of the context. It
	// is set before the decision is made.
	CompareUntil time.Time

	d     *Decider
	check *checkpb.Check
	parts []part
	// open is the number of writes in flight, and one more while they are started.
	open    atomic.Int64
	written func()
	// malformed says that the check has names that are too long.
	malformed bool
	// results are those of the parts after their writes, and waiting the parts that
	// have no result yet.
	results []evaluate.Result
	waiting []int
	// reports says that there are findings to record in incidents.
	reports bool
	// reported are the keys of the incidents in which the request was recorded.
	reported []string
}

// Start starts the writes of a check and calls written once when they are done, perhaps before
// Start returns. While written runs, no other write is acknowledged, so it must not wait. A
// goroutine for each check that only waits for its writes would cost a tenth more processor
// time.
func (d *Decider) Start(ctx context.Context, check *checkpb.Check, written func()) *Check {
	c := &Check{d: d, check: check, written: written, malformed: !evaluate.Bounded(check)}
	c.open.Store(1)
	if !c.malformed {
		c.parts = d.parts(check)
	}
	for i := range c.parts {
		if p := &c.parts[i]; p.err == nil && p.access == evaluate.Write {
			c.open.Add(1)
			p.start(ctx, func(err error) {
				p.err = err
				c.done()
			})
		}
	}
	c.done()
	return c
}

// done is called at the end of each write.
func (c *Check) done() {
	if c.open.Add(-1) > 0 {
		return
	}
	c.results = make([]evaluate.Result, len(c.parts))
	for i := range c.parts {
		p := &c.parts[i]
		if p.err != nil || p.access == evaluate.Read {
			c.waiting = append(c.waiting, i)
			continue
		}
		c.results[i] = p.Result()
		c.reports = c.reports || len(c.results[i].Incidents) > 0
	}
	c.written()
}

// Waits reports whether the decision has to wait for something else than the check's writes.
func (c *Check) Waits() bool {
	return len(c.waiting) > 0 || c.reports || len(c.check.GetSemantics()) > 0
}

// Decide starts a check, waits for its writes and returns its decision.
func (d *Decider) Decide(ctx context.Context, check *checkpb.Check) *checkpb.Decision {
	return d.wait(ctx, check).Decide(ctx)
}

func (d *Decider) wait(ctx context.Context, check *checkpb.Check) *Check {
	written := make(chan struct{})
	c := d.Start(ctx, check, func() { close(written) })
	<-written
	return c
}

func (c *Check) count(ctx context.Context) *checkpb.Decision {
	c.d.each(len(c.waiting), func(n int) {
		i := c.waiting[n]
		c.results[i] = c.d.finish(ctx, c.check, i, &c.parts[i])
	})
	if !c.check.GetProbe() {
		c.report(ctx)
	}
	decision, err := evaluate.Conclude(c.check.GetLimits(), c.results)
	decision.Error = c.d.explain(err)
	return decision
}

// Decide returns the combined decision of all rules, counters and watches of a check whose
// writes are done. Texts are compared last, and only if the request is not stopped anyway.
func (c *Check) Decide(ctx context.Context) *checkpb.Decision {
	if c.malformed {
		return &checkpb.Decision{Error: c.d.explain(evaluate.ErrMalformed)}
	}
	decision := c.count(ctx)
	if c.d.Semantic != nil && len(c.check.GetSemantics()) > 0 && !decision.GetAction().Stops() {
		c.compare(ctx, decision)
	}
	c.d.Metrics.Checked(decision.GetAction())
	return decision
}

// compare adds the results of the semantic watches.
func (c *Check) compare(ctx context.Context, decision *checkpb.Decision) {
	if !c.CompareUntil.IsZero() {
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadline(ctx, c.CompareUntil)
		defer cancel()
	}
	watches := evaluate.Semantics(c.check, decision.GetHitCounts(), c.reported)
	results := make([]comparing.Result, len(watches))
	c.d.each(len(watches), func(i int) { results[i] = c.d.Semantic.Compare(ctx, watches[i]) })
	for _, r := range results {
		decision.SemanticMissed = decision.SemanticMissed || r.Missed
		if r.Finding != nil {
			evaluate.Add(decision, r.Finding)
		}
	}
}

// explain returns the text of an error for the wire. The details are in metrics and
// the log, since they may name what the gateway must not see.
func (d *Decider) explain(err error) string {
	switch {
	case err == nil:
		return ""
	case errors.Is(err, evaluate.ErrMalformed):
		d.Metrics.Malformed.Inc()
		return errorMalformed
	default:
		d.Metrics.Uncounted.Inc()
		d.Log.Debug("check not counted", "error", err)
		return errorUncounted
	}
}

// finish returns the result of part i if its write gave none. It hands the step over to the
// detector that owns the record. If that one does not answer, it applies the step here, unless
// the hit could count twice. For a part that writes nothing it reads the record.
func (d *Decider) finish(ctx context.Context, check *checkpb.Check, i int, p *part) evaluate.Result {
	err := p.err
	if elsewhere, ok := errors.AsType[*ledger.ElsewhereError](err); ok {
		reply, gone, sent := d.send(ctx, elsewhere.Owner, &checkpb.Handover{Check: p.handover(check, i)})
		switch {
		case gone || sent != nil && p.idempotent && !errors.Is(sent, evaluate.ErrMalformed):
			err = wait(ledger.Stay(ctx), p.start)
		case sent != nil:
			err = sent
		default:
			err = p.take(reply)
		}
	}
	if p.budget != nil && natskit.IsFull(err) {
		err = p.squeeze(ctx, err)
	} else if err == nil && p.access == evaluate.Read {
		err = p.read(ctx)
	}
	if err != nil {
		return evaluate.Result{Err: err}
	}
	return p.Result()
}

// wait starts a write and waits for it.
func wait(ctx context.Context, start func(context.Context, func(error))) error {
	done := make(chan error, 1)
	start(ctx, func(err error) { done <- err })
	return <-done
}

// report records the findings of all parts in their incidents, and announces and stores the
// cooldowns that begin. A check that writes nothing only looks up its incidents.
func (c *Check) report(ctx context.Context) {
	d := c.d
	ended, reports := evaluate.Reports(c.check, c.results)
	if c.check.GetPeek() {
		for _, r := range reports {
			r.Identify(d.Incidents.Open(r.Findings[0]))
		}
		return
	}
	for _, f := range ended {
		if err := d.Incidents.Resolve(ctx, f, event.ReasonClosed); err != nil {
			d.Metrics.Unrecorded.Inc()
			d.Log.Warn("the end of an open circuit breaker was not recorded", "policy", f.Policy, "error", err)
		}
	}
	d.each(len(reports), func(i int) {
		id, err := d.Incidents.Record(ctx, reports[i].Findings...)
		if err != nil {
			d.Metrics.Unrecorded.Inc() // the decision holds without its incident
		}
		reports[i].Identify(id)
	})
	for _, r := range reports {
		c.reported = append(c.reported, r.Findings[0].Key())
	}
	for i := range c.results {
		if cooldown := c.results[i].Cooldown; cooldown != nil {
			d.begin(cooldown)
		}
	}
}

// begin announces a cooldown to gateways and stores it.
func (d *Decider) begin(c *evaluate.Cooldown) {
	d.broadcast(c.Finding)
	if d.Cooldowns != nil {
		d.Cooldowns.Keep(c)
	}
}

// broadcast notifies every gateway of a reject that holds from now on.
func (d *Decider) broadcast(f *checkpb.Finding) {
	if f.GetShadow() {
		return
	}
	body, err := proto.Marshal(&checkpb.Cooldown{Finding: f})
	if err == nil {
		err = d.Publish(schemas.SubjectCooldown, body)
	}
	if err != nil {
		d.Metrics.Unanswered.Inc()
	}
}
