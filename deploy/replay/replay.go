// Package replay evaluates recorded requests with the code of gateways and detectors, and
// reports what would have been stopped. Package logs reads the recordings.
//
// It needs neither a network nor NATS: counters are in memory, and the clock is that of the
// recording. It does not know the formats of recordings.
package replay

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/unloop/unloop/deploy/replay/logs"
	"github.com/unloop/unloop/detector"
	"github.com/unloop/unloop/embedworker"
	"github.com/unloop/unloop/gateway"
	"github.com/unloop/unloop/schemas"
	"github.com/unloop/unloop/schemas/checkpb"
	"github.com/unloop/unloop/schemas/record"
)

// sessionGap is the assumed time between two sessions without recorded times. It is longer than
// any default window, because they may have run days apart.
const sessionGap = time.Hour

// Run evaluates requests one after another. Make it with New.
type Run struct {
	cfg      Config
	gateways []*gateway.Replayer // the one of the newest request first
	detector *detector.Evaluator
	clock    clock
	tally    *tally
	open     open
	worker   *embedworker.Offline    // nil if no policy needs it
	decided  func(*checkpb.Decision) // may be nil
}

// Config configures a run.
type Config struct {
	// Policies is the file of the bundle; "" is the default policy.
	Policies string
	// Pace is the assumed time between two requests of a session without recorded times.
	Pace time.Duration
	// Overrides are blocks and exemptions, each in force from its creation until it expires.
	// If nil, those that were recorded apply.
	Overrides []schemas.Override
	// Embedworker selects the embedder, for policies with semantic detection.
	Embedworker embedworker.Config
	// Gateways is the number of gateways that get the requests in turn; 0 means 1.
	Gateways int
	// Decided is called with each decision; it may be nil.
	Decided func(*checkpb.Decision)
	// Worker wraps what compares texts; it may be nil.
	Worker func(detector.Worker) detector.Worker
}

// New returns a run without any requests. Close ends it.
func New(ctx context.Context, cfg Config) (*Run, error) {
	gw := gateway.DefaultConfig()
	gw.Policies, gw.MaxInspectBytes = cfg.Policies, logs.Limit // a recording has only what was inspected
	one, err := gateway.NewReplayer(gw, time.Now)
	if err != nil {
		return nil, err
	}
	var worker *embedworker.Offline
	if slices.ContainsFunc(one.Policies().Policies(), func(p *gateway.Policy) bool { return p.Semantic != nil }) {
		if worker, err = embedworker.NewOffline(ctx, cfg.Embedworker, time.Now, slog.New(slog.DiscardHandler)); err != nil {
			return nil, err
		}
	}
	return (&Run{cfg: cfg, gateways: []*gateway.Replayer{one}, worker: worker}).Another(cfg.Decided), nil
}

// Another returns a new run with the same configuration, except for decided. Both may be used
// concurrently. Closing r also ends it.
func (r *Run) Another(decided func(*checkpb.Decision)) *Run {
	out := &Run{cfg: r.cfg, clock: clock{now: time.Now(), pace: r.cfg.Pace}, decided: decided}
	now := func() time.Time { return out.clock.now }
	for range max(r.cfg.Gateways, 1) {
		one := r.gateways[0].Another(now)
		one.SetOverrides(r.cfg.Overrides)
		out.gateways = append(out.gateways, one)
	}
	out.tally = newTally(out.gateways[0].Policies())
	if r.worker == nil {
		out.detector = detector.NewEvaluator(now, nil)
		return out
	}
	out.worker = r.worker.Another(now)
	var worker detector.Worker = out.worker
	if r.cfg.Worker != nil {
		worker = r.cfg.Worker(worker)
	}
	out.detector, out.tally.report.Embedder = detector.NewEvaluator(now, worker), out.worker.Embedder()
	return out
}

// Close frees the embedder.
func (r *Run) Close() error {
	if r.worker == nil {
		return nil
	}
	return r.worker.Close()
}

// Request evaluates a request of a file, or accounts for an answer. After an error, the run can
// continue with the next request.
func (r *Run) Request(ctx context.Context, file string, q *logs.Request) error {
	r.clock.advance(file, q)
	if q.Answer != nil {
		if p := r.open.take(q.Answer.To); p != nil {
			r.finish(p, &q.Answer.Outcome)
		}
		return nil
	}
	req, c, part, err := requestOf(ctx, file, q)
	if err != nil {
		return r.Unreadable(err)
	}
	r.gateways = append(r.gateways[1:], r.gateways[0])
	evaluation, err := r.gateways[0].EvaluateNext(req, origin(q), c, part)
	if err != nil {
		return r.Unreadable(fmt.Errorf("read the request's body: %w", err))
	}
	at := r.tally.place(file, q)
	p := &pending{evaluation: evaluation, costs: r.tally.spent(q, evaluation.Check), model: q.Model}
	operator, reason := r.operator(q, evaluation)
	switch {
	case operator != "":
		p.evaluation = nil // no detector was asked
		r.tally.overridden(at, p, operator, reason)
	case evaluation.Check == nil:
		r.tally.unwatched(p)
	default:
		if err := r.decide(ctx, at, q, p); err != nil {
			return err
		}
	}
	if q.Status > 0 {
		r.finish(p, &q.Outcome)
	}
	if q.ID == "" || p.evaluation == nil { // no answer will come
		evaluation.Answered()
	}
	r.open.add(q.ID, p)
	return nil
}

// operator returns what a kill switch, block or exemption does with a request: by the bundle and
// the run's overrides, else as recorded.
func (r *Run) operator(q *logs.Request, e *gateway.Evaluation) (did, reason string) {
	if e.Operator == "" && r.cfg.Overrides == nil && (q.Operator == record.Blocked || q.Operator == record.Exempted) {
		return q.Operator, "as recorded"
	}
	return e.Operator, e.Reason
}

// decide asks the detector and adds its decision to the report.
func (r *Run) decide(ctx context.Context, at Place, q *logs.Request, p *pending) error {
	check := p.evaluation.Check
	check.Explain = true
	p.decision = r.detector.Decide(ctx, check)
	if err := ctx.Err(); err != nil {
		return err
	}
	if r.decided != nil {
		r.decided(p.decision)
	}
	r.tally.decided(at, q, check, p)
	if !q.Stopped && q.Source != logs.Session { // whose answers all count
		p.uncounted = checkpb.OutcomeOf(check)
	}
	p.evaluation.Check = nil // it may be large
	if stops(p.decision) {
		// The upstream does not get the request: it costs nothing.
		r.detector.Apply(&checkpb.Outcome{Corrections: p.evaluation.Corrections(p.decision, gateway.Outcome{Status: http.StatusTooManyRequests}, r.clock.now)})
		p.evaluation = nil
	}
	return nil
}

// finish replaces the estimated cost of a request with the real one, and reports to the detector
// what a gateway would.
func (r *Run) finish(p *pending, o *logs.Outcome) {
	r.tally.correct(p, o)
	if p.evaluation == nil || p.decision == nil {
		return // no detector was asked
	}
	p.evaluation.Answered()
	outcome := &checkpb.Outcome{}
	if p.uncounted != nil && gateway.Uncounted(o.Status) {
		outcome = p.uncounted
	}
	outcome.Corrections = p.evaluation.Corrections(p.decision, gateway.Outcome{
		Status: o.Status, InputTokens: o.InputTokens, CachedTokens: o.CachedTokens, OutputTokens: o.OutputTokens,
	}, r.clock.now)
	r.detector.Apply(outcome)
	p.evaluation = nil
}

// origin returns the identity that a gateway recorded with a request.
func origin(q *logs.Request) gateway.Origin {
	out := gateway.Origin{Upstream: q.Upstream}
	if q.Source == logs.Recording {
		out.Caller, out.TenantVerified, out.OwnSession = q.Caller, q.TenantVerified, q.Session != ""
		out.Session = cmp.Or(q.Session, q.DerivedSession)
	}
	return out
}

// Unreadable counts an entry that could not be evaluated, and returns its error.
func (r *Run) Unreadable(err error) error {
	r.tally.report.Unreadable++
	return err
}

// Report returns the report on the requests so far.
func (r *Run) Report() *Report {
	out := r.tally.summary()
	out.OutOfOrder = r.clock.late
	return out
}

// clock is the time of the recording. The first recorded time sets it, and then it never runs
// backwards.
type clock struct {
	now   time.Time
	pace  time.Duration
	timed bool
	last  place // of the last request without a time
	late  int   // number of requests that were older than the clock
}

// place is a session of a file.
type place struct{ file, session string }

func (c *clock) advance(file string, q *logs.Request) {
	switch {
	case !q.Time.IsZero():
		if c.timed && q.Time.Before(c.now) {
			if q.Answer == nil {
				c.late++
			}
			return
		}
		c.now, c.timed = q.Time, true
	case q.Answer != nil: // an answer without a time
	case c.last != place{file, q.Session}:
		c.now, c.last = c.now.Add(sessionGap), place{file, q.Session}
	default:
		c.now = c.now.Add(c.pace)
	}
}

// keyHeaders are the headers in which formats have the API key.
var keyHeaders = []string{"X-Api-Key", "X-Goog-Api-Key", "Api-Key"}

// httpRequest returns the recorded request. The hash of the caller replaces the API key.
func httpRequest(ctx context.Context, file string, q *logs.Request, body io.Reader) (*http.Request, error) {
	req, err := http.NewRequestWithContext(ctx, q.Method, "http://recorded/"+strings.TrimPrefix(q.Path, "/"), body)
	if err != nil {
		return nil, fmt.Errorf("make the recorded request: %w", err)
	}
	for name, value := range q.Header {
		req.Header.Set(name, value)
	}
	if host := req.Header.Get("Host"); host != "" {
		req.Host = host
	}
	if caller := strings.Trim(q.Caller+"/"+q.User, "/"); caller != "" {
		req.Header.Set("Authorization", "Bearer "+caller)
		for _, name := range keyHeaders {
			req.Header.Set(name, caller)
		}
	}
	for name, value := range map[string]string{"X-Session-Id": SessionName(file, q), "X-Tenant-Id": q.Tenant, "X-Project-Id": q.Project} {
		if value != "" {
			req.Header.Set(name, value)
		}
	}
	return req, nil
}

// SessionName returns the name of a request's session, or "" if it is derived from the body.
// The names of sessions in a file are unique only within the file, so it adds the file.
func SessionName(file string, q *logs.Request) string {
	if q.Session != "" && q.Source == logs.Session {
		return filepath.Base(file) + "#" + q.Session
	}
	return q.Session
}

// stops reports whether the decision keeps a request from its upstream.
func stops(d *checkpb.Decision) bool { return d.GetAction().Stops() }
