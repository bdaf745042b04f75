// Package ask gets the detectors' decision on a request, and counts and logs the
// requests that have none.
//
// It does not know what a check contains, or what is done with a decision.
package ask

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/unloop/unloop/gateway/internal/ask/checker"
	"github.com/unloop/unloop/schemas/checkpb"
	"github.com/unloop/unloop/schemas/kit/metric"
	"github.com/unloop/unloop/schemas/kit/tracing"
)

// Detectors decide about checks. local is set if the decision is from memory.
type Detectors interface {
	Check(ctx context.Context, check *checkpb.Check) (decision *checkpb.Decision, local bool, err error)
}

// Asker asks detectors. Make it with New.
type Asker struct {
	detectors Detectors
	log       *slog.Logger
	now       func() time.Time
	// Traces makes the spans of checks; nil makes none.
	Traces  *tracing.Tracer
	seconds prometheus.Histogram
	results *prometheus.CounterVec
	missed  prometheus.Counter
	mu      sync.Mutex
	// last is the time of the latest request without a decision, by reason.
	last map[string]time.Time
}

// New returns an asker.
func New(d Detectors, log *slog.Logger, now func() time.Time, reg prometheus.Registerer) *Asker {
	a := &Asker{
		detectors: d, log: log, now: now, last: map[string]time.Time{},
		seconds: metric.Histogram(reg, "unloop_gateway_check_seconds", "Time until the decision.", []float64{.0001, .00025, .0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1}),
		results: metric.Counters(reg, "unloop_gateway_checks_total", "Checks by result: decided, local (from memory), abandoned, or the reason why there is no decision.", "result"),
		missed:  metric.Counter(reg, "unloop_gateway_semantic_missed_total", "Requests decided without the semantic comparison, because it was late or missing."),
	}
	for _, why := range []error{checker.ErrNoDetector, checker.ErrTimeout, checker.ErrOverloaded, checker.ErrDetector} {
		a.results.WithLabelValues(why.Error())
	}
	return a
}

// Answer is what the detectors say about a check.
type Answer struct {
	Decision *checkpb.Decision
	// Counted is set if a detector counted the request.
	Counted bool
	// Degraded is the reason for having no decision; "" if there is one, or the client left.
	Degraded string
	// Overloaded is set if there is none because the detectors are busy with others.
	Overloaded bool
}

// Ask returns the detectors' answer to a check.
func (a *Asker) Ask(ctx context.Context, check *checkpb.Check) Answer {
	if a.Traces != nil {
		return a.askTraced(ctx, check)
	}
	out, _ := a.ask(ctx, check)
	return out
}

// askTraced is Ask in a span of its own, the parent of the detector's.
func (a *Asker) askTraced(ctx context.Context, check *checkpb.Check) Answer {
	ctx, span := a.Traces.Start(ctx, "check", trace.SpanKindClient)
	defer span.End()
	check.Traceparent = tracing.Parent(ctx)
	out, local := a.ask(ctx, check)
	span.SetAttributes(attribute.String("unloop.action", out.Decision.GetAction().Label()), attribute.Bool("unloop.local", local))
	if out.Degraded != "" {
		span.SetAttributes(attribute.String("unloop.degraded", out.Degraded))
		span.SetStatus(codes.Error, out.Degraded)
	}
	return out
}

// ask asks the detectors, unless the client left: then the check may be incomplete. local is
// set if the answer is from memory.
func (a *Asker) ask(ctx context.Context, check *checkpb.Check) (_ Answer, local bool) {
	if ctx.Err() != nil {
		a.results.WithLabelValues("abandoned").Inc()
		return Answer{}, false
	}
	started := time.Now()
	decision, local, err := a.detectors.Check(ctx, check)
	a.seconds.Observe(time.Since(started).Seconds())
	out := Answer{Decision: decision, Counted: err == nil && !local}
	switch {
	case local && err == nil:
		a.Local()
	case err == nil:
		a.results.WithLabelValues("decided").Inc()
		if decision.GetSemanticMissed() {
			a.missed.Inc()
		}
	case errors.Is(err, checker.ErrOverloaded):
		a.results.WithLabelValues(Undecided(err)).Inc()
		out.Overloaded = true
	case errors.Is(err, context.Canceled):
		a.results.WithLabelValues("abandoned").Inc()
	default:
		out.Degraded = a.Degraded(Undecided(err))
	}
	return out, local
}

// Local counts a decision from memory.
func (a *Asker) Local() { a.results.WithLabelValues("local").Inc() }

// pause is how long a reason must be absent before it is logged again.
const pause = time.Minute

// Degraded counts a request without a full decision, logs the first in a row, and returns the
// reason.
func (a *Asker) Degraded(why string) string {
	a.results.WithLabelValues(why).Inc()
	now := a.now()
	a.mu.Lock()
	last, seen := a.last[why]
	a.last[why] = now
	a.mu.Unlock()
	if !seen || now.Sub(last) > pause {
		a.log.Warn("requests are not checked; the failure mode decides", "reason", why)
	}
	return why
}

// Undecided returns the reason for having no decision, as metrics and headers name it.
func Undecided(err error) string {
	for _, known := range []error{checker.ErrNoDetector, checker.ErrTimeout, checker.ErrOverloaded} {
		if errors.Is(err, known) {
			return known.Error()
		}
	}
	return checker.ErrDetector.Error()
}
