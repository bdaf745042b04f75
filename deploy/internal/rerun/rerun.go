// Package rerun judges recorded requests as gateways and detectors would have
// judged them, by their own code, and reports what would have been stopped.
//
// It needs neither a network nor NATS: counters are in memory, and time is that
// of the recording. Checks by meaning, kill switches and operators' blocks are
// not part of it, and answers correct no rule's estimates. It knows no formats of
// recordings and no command line.
package rerun

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"time"

	"github.com/unloop/unloop/deploy/internal/replay"
	"github.com/unloop/unloop/detector"
	"github.com/unloop/unloop/gateway"
	"github.com/unloop/unloop/schemas/checkpb"
)

// sessionGap lies between two sessions whose times are not recorded: more than
// any default window, since nobody knows that they ran at once.
const sessionGap = time.Hour

// Run judges requests, one after the other. Make it with New.
type Run struct {
	evidence *gateway.Evidence
	judge    *detector.Judge
	clock    clock
	tally    *tally
}

// New returns a run by the bundle in a file, or by the default policy if it is
// empty. Pace is the time between two requests of a session for which none is
// recorded.
func New(policies string, pace time.Duration) (*Run, error) {
	r := &Run{clock: clock{now: time.Now(), pace: pace}}
	now := func() time.Time { return r.clock.now }
	cfg := gateway.DefaultConfig()
	cfg.Policies = policies
	var err error
	if r.evidence, err = gateway.NewEvidence(cfg, now); err != nil {
		return nil, err
	}
	r.judge, r.tally = detector.NewJudge(now), newTally(r.evidence.Policies())
	return r, nil
}

// Request judges one request of a file. An error says why it could not be; the
// run can go on with the next.
func (r *Run) Request(ctx context.Context, file string, q *replay.Request) error {
	req, err := httpRequest(ctx, file, q)
	if err != nil {
		return r.Unreadable(err)
	}
	r.clock.advance(file, q)
	check, err := r.evidence.Check(req, q.Upstream)
	if err != nil {
		return r.Unreadable(fmt.Errorf("read the request's body: %w", err))
	}
	at := r.tally.place(file, q)
	if check == nil {
		r.tally.unwatched(q)
		return nil
	}
	check.Explain = true
	decision := r.judge.Decide(ctx, check)
	if err := ctx.Err(); err != nil {
		return err
	}
	r.tally.judged(at, q, check, decision)
	if cameToNothing(q) && !decision.GetAction().Stops() {
		r.judge.Excuse(check)
	}
	return nil
}

// cameToNothing says whether the upstream's answer, as recorded, would have the
// next replay of the request not count. Where the answer was Unloop's own, the
// upstream gave none.
func cameToNothing(q *replay.Request) bool {
	return !q.Stopped && gateway.CameToNothing(q.Status)
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

func (c *clock) advance(file string, q *replay.Request) {
	switch session := file + "\x00" + q.Session; {
	case !q.Time.IsZero():
		if c.timed && q.Time.Before(c.now) {
			c.late++
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
func httpRequest(ctx context.Context, file string, q *replay.Request) (*http.Request, error) {
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
func session(file string, q *replay.Request) string {
	if q.Session != "" && q.Source == replay.Session {
		return filepath.Base(file) + "#" + q.Session
	}
	return q.Session
}

// stops says whether the decision keeps a request from its upstream.
func stops(d *checkpb.Decision) bool { return d.GetAction().Stops() }
