// Package replay judges recorded requests as gateways and detectors would have
// judged them, by their own code, and reports what would have been stopped.
//
// It needs neither a network nor NATS: counters are in memory, and time is that
// of the recording. It knows no formats of recordings and no command line.
package replay

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
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

// sessionGap lies between two sessions whose times are not recorded: more than
// any default window, since nobody knows that they ran at once.
const sessionGap = time.Hour

// Run judges requests, one after the other. Make it with New.
type Run struct {
	evidence  *gateway.Evidence
	evaluator *detector.Evaluator
	clock     clock
	tally     *tally
	open      open
	worker    *embedworker.Offline // nil if no policy asks for it
	// overridden says that operators' overrides were given; those in recordings
	// then do not count.
	overridden bool
	decided    func(*checkpb.Decision) // or nil
}

// Config is how requests are judged.
type Config struct {
	// Policies is the file of the bundle; "" for the default policy.
	Policies string
	// Pace is the time between two requests of a session for which none is
	// recorded.
	Pace time.Duration
	// Overrides are operators' blocks and exemptions, each from when it was made
	// until it ended. nil takes what operators did from the recordings.
	Overrides []schemas.Override
	// Embedworker says what compares texts, where a policy asks for that.
	Embedworker embedworker.Config
	// Decided is called with the decision about each request that a detector was
	// asked about; nil for nobody.
	Decided func(*checkpb.Decision)
}

// New returns a run that has judged nothing yet. Close ends it.
func New(ctx context.Context, cfg Config) (*Run, error) {
	r := &Run{clock: clock{now: time.Now(), pace: cfg.Pace}, overridden: cfg.Overrides != nil, decided: cfg.Decided}
	now := func() time.Time { return r.clock.now }
	gw := gateway.DefaultConfig()
	gw.Policies, gw.MaxInspectBytes = cfg.Policies, logs.Limit // what was inspected was recorded
	var err error
	if r.evidence, err = gateway.NewEvidence(gw, now); err != nil {
		return nil, err
	}
	r.evidence.SetOverrides(cfg.Overrides)
	r.tally = newTally(r.evidence.Policies())
	if !slices.ContainsFunc(r.evidence.Policies().Policies(), func(p *gateway.Policy) bool { return p.Semantic != nil }) {
		r.evaluator = detector.NewEvaluator(now, nil)
		return r, nil
	}
	if r.worker, err = embedworker.NewOffline(ctx, cfg.Embedworker, now, slog.New(slog.DiscardHandler)); err != nil {
		return nil, err
	}
	r.evaluator, r.tally.report.Embedder = detector.NewEvaluator(now, r.worker), r.worker.Embedder()
	return r, nil
}

// Close frees what compared texts.
func (r *Run) Close() error {
	if r.worker == nil {
		return nil
	}
	return r.worker.Close()
}

// Request judges one request of a file, or takes an answer into account. An error
// says why it could not be; the run can go on with the next.
func (r *Run) Request(ctx context.Context, file string, q *logs.Request) error {
	r.clock.advance(file, q)
	if q.Answer != nil {
		r.answered(q.Answer)
		return nil
	}
	req, err := httpRequest(ctx, file, q)
	if err != nil {
		return r.Unreadable(err)
	}
	asked, err := r.evidence.Question(req, origin(q))
	if err != nil {
		return r.Unreadable(fmt.Errorf("read the request's body: %w", err))
	}
	at := r.tally.place(file, q)
	p := &pending{asked: asked, costs: r.tally.spent(q, asked.Check), model: q.Model}
	operator, reason := r.operator(q, asked)
	switch {
	case operator != "":
		p.asked = nil // no detector was asked
		r.tally.operated(at, p, operator, reason)
	case asked.Check == nil:
		r.tally.unwatched(p)
	default:
		if err := r.decide(ctx, at, q, p); err != nil {
			return err
		}
	}
	if q.Status > 0 {
		r.settle(p, &q.Outcome)
	}
	r.open.add(q.ID, p)
	return nil
}

// operator is what an operator had done with a request: by the bundle and the
// overrides that were given, else as it was recorded.
func (r *Run) operator(q *logs.Request, asked *gateway.Question) (did, reason string) {
	if asked.Operator == "" && !r.overridden && (q.Operator == record.Blocked || q.Operator == record.Exempted) {
		return q.Operator, "as recorded"
	}
	return asked.Operator, asked.Reason
}

func (r *Run) decide(ctx context.Context, at Place, q *logs.Request, p *pending) error {
	check := p.asked.Check
	check.Explain = true
	p.decision = r.evaluator.Decide(ctx, check)
	if err := ctx.Err(); err != nil {
		return err
	}
	if r.decided != nil {
		r.decided(p.decision)
	}
	p.stopped = q.Stopped
	r.tally.judged(at, q, check, p)
	p.nothing = checkpb.OutcomeOf(check)
	p.asked.Check = nil // it may be large
	if stops(p.decision) {
		// It cost nothing, and no answer is the upstream's.
		r.evaluator.Apply(&checkpb.Outcome{Corrections: p.asked.Corrections(p.decision, gateway.Outcome{Status: http.StatusTooManyRequests}, r.clock.now)})
		p.asked = nil
	}
	return nil
}

// answered takes in what came of an earlier request.
func (r *Run) answered(a *logs.Answer) {
	if p := r.open.take(a.To); p != nil {
		r.settle(p, &a.Outcome)
	}
}

// settle corrects what a request is taken to have cost, and tells the detectors
// what a gateway would.
func (r *Run) settle(p *pending, o *logs.Outcome) {
	r.tally.correct(p, o)
	if p.asked == nil || p.decision == nil {
		return // no detector was asked
	}
	told := &checkpb.Outcome{}
	if !p.stopped && gateway.CameToNothing(o.Status) {
		told = p.nothing
	}
	told.Corrections = p.asked.Corrections(p.decision, gateway.Outcome{
		Status: o.Status, InputTokens: o.InputTokens, CachedTokens: o.CachedTokens, OutputTokens: o.OutputTokens,
	}, r.clock.now)
	r.evaluator.Apply(told)
	p.asked = nil
}

// origin is whose request it was, as far as a gateway recorded it.
func origin(q *logs.Request) gateway.Origin {
	out := gateway.Origin{Upstream: q.Upstream}
	if q.Source == logs.Recording {
		out.Caller, out.TenantVerified, out.OwnSession = q.Caller, q.TenantVerified, q.Session != ""
		out.Session = cmp.Or(q.Session, q.DerivedSession)
	}
	return out
}

// Unreadable counts an entry that could not be judged, and returns its fault.
func (r *Run) Unreadable(err error) error {
	r.tally.report.Unreadable++
	return err
}

// Report is what was found so far.
func (r *Run) Report() *Report {
	out := r.tally.finish()
	out.OutOfOrder = r.clock.late
	return out
}

// clock is the time of the recording. It never runs backwards, but begins anew
// with the first time that is recorded.
type clock struct {
	now   time.Time
	pace  time.Duration
	timed bool
	last  string // session of the last request without a time
	late  int
}

func (c *clock) advance(file string, q *logs.Request) {
	switch session := file + "\x00" + q.Session; {
	case !q.Time.IsZero():
		if c.timed && q.Time.Before(c.now) {
			if q.Answer == nil {
				c.late++
			}
			return
		}
		c.now, c.timed = q.Time, true
	case c.last != session:
		c.now, c.last = c.now.Add(sessionGap), session
	default:
		c.now = c.now.Add(c.pace)
	}
}

// keyHeaders are where the formats put the API key.
var keyHeaders = []string{"X-Api-Key", "X-Goog-Api-Key", "Api-Key"}

// httpRequest is the request as its client sent it, as far as it is known. The
// caller's hash stands for the API key.
func httpRequest(ctx context.Context, file string, q *logs.Request) (*http.Request, error) {
	req, err := http.NewRequestWithContext(ctx, q.Method, "http://recorded/"+strings.TrimPrefix(q.Path, "/"), bytes.NewReader(q.Body))
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
	for name, value := range map[string]string{"X-Session-Id": session(file, q), "X-Tenant-Id": q.Tenant, "X-Project-Id": q.Project} {
		if value != "" {
			req.Header.Set(name, value)
		}
	}
	return req, nil
}

// session names a request's session, "" if it follows from the body. The reader
// names sessions without an id by their line, which other files have too.
func session(file string, q *logs.Request) string {
	if q.Session != "" && q.Source == logs.Session {
		return filepath.Base(file) + "#" + q.Session
	}
	return q.Session
}

// stops says whether the decision keeps a request from its upstream.
func stops(d *checkpb.Decision) bool { return d.GetAction().Stops() }
