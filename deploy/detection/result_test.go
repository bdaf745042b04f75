package detection

import (
	"fmt"
	"strings"

	"github.com/unloop/unloop/schemas/checkpb"
)

// Result is the result for one session.
type Result struct {
	Session  *Session
	Requests int
	Actions  []Acted // of the requests that were not just allowed
	Embeddings
}

// Acted is a request with an action other than allow.
type Acted struct {
	Request   int // from 0
	Action    checkpb.Action
	Detectors []string
	Why       string
}

// add adds the decision about a request.
func (r *Result) add(number int, d *checkpb.Decision) {
	if d.GetAction() == checkpb.Action_ACTION_ALLOW {
		return
	}
	m := Acted{Request: number, Action: d.GetAction()}
	for _, f := range d.GetFindings() {
		m.Detectors = append(m.Detectors, fmt.Sprintf("%s/%s:%d", f.GetDetector(), f.GetAction().Label(), f.GetHitCount()))
		if m.Why == "" && f.GetAction() == d.GetAction() {
			m.Why = f.GetMessage()
		}
	}
	r.Actions = append(r.Actions, m)
}

// first returns the first request with an action of at least that strength, or -1.
func (r *Result) first(least checkpb.Action) int {
	for _, m := range r.Actions {
		if m.Action >= least {
			return m.Request
		}
	}
	return -1
}

// Hinted reports whether a request was hinted or stopped.
func (r *Result) Hinted() bool { return r.first(checkpb.Action_ACTION_HINT) >= 0 }

// Stopped reports whether a request did not reach its upstream.
func (r *Result) Stopped() bool { return r.first(checkpb.Action_ACTION_REJECT) >= 0 }

// InTime reports whether a stuck session was hinted or stopped at the latest at the
// request that contains its fourth round without news.
func (r *Result) InTime() bool {
	at := r.first(checkpb.Action_ACTION_HINT)
	return at >= 0 && at <= r.Session.deadline()
}

// Pressed reports whether the session was stopped, or hinted at least twice.
func (r *Result) Pressed() bool {
	hints := 0
	for _, m := range r.Actions {
		if m.Action >= checkpb.Action_ACTION_HINT {
			hints++
		}
	}
	return r.Stopped() || hints > 1
}

// long reports whether the session goes on after the request with the fourth round
// without news, so that there is time for a second hint.
func (r *Result) long() bool { return r.Requests > r.Session.deadline()+1 }

// String returns the session's part of the verbose output.
func (r *Result) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%-6s %-5s %2d requests", r.Session.Label, r.Session.ActsBy, r.Requests)
	if r.Session.Stuck() {
		fmt.Fprintf(&b, ", stale from round %d, to be found by request %d", *r.Session.StaleFrom, r.Session.deadline())
	}
	fmt.Fprintf(&b, "  %s\n", r.Session.Source)
	for _, m := range r.Actions {
		fmt.Fprintf(&b, "    request %2d %-8s %s  %s\n", m.Request, m.Action.Label(), strings.Join(m.Detectors, " "), m.Why)
	}
	return b.String()
}

// Summary has the figures of the sessions that act by tools, or of those by text.
type Summary struct {
	ActsBy                        string
	Honest, Hinted, HonestStops   int
	Stuck, Found, InTime          int
	Long, Pressed, StuckStopped   int
	HonestRequests, HonestFlagged int
}

// Summarise returns the figures for tools and for text.
func Summarise(results []Result) []Summary {
	out := []Summary{{ActsBy: "tools"}, {ActsBy: "text"}}
	for i := range results {
		for n := range out {
			if out[n].ActsBy == results[i].Session.ActsBy {
				out[n].add(&results[i])
			}
		}
	}
	return out
}

func (s *Summary) add(r *Result) {
	if !r.Session.Stuck() {
		s.Honest++
		s.Hinted += count(r.Hinted())
		s.HonestStops += count(r.Stopped())
		s.HonestRequests += r.Requests
		s.HonestFlagged += len(r.Actions)
		return
	}
	s.Stuck++
	s.Found += count(r.Hinted())
	s.InTime += count(r.InTime())
	s.StuckStopped += count(r.Stopped())
	if r.long() {
		s.Long++
		s.Pressed += count(r.Pressed())
	}
}

func count(yes bool) int {
	if yes {
		return 1
	}
	return 0
}

// String returns the summary's line in the output of the tests.
func (s *Summary) String() string {
	return fmt.Sprintf("%-5s honest: %d sessions, %d stopped, %d hinted (%.1f %%); stuck: %d sessions, %d found, %d in time (%.1f %%), %d stopped, stopped or hinted twice %d of %d (%.1f %%)",
		s.ActsBy, s.Honest, s.HonestStops, s.Hinted, percent(s.Hinted, s.Honest), s.Stuck, s.Found, s.InTime, percent(s.InTime, s.Stuck),
		s.StuckStopped, s.Pressed, s.Long, percent(s.Pressed, s.Long))
}

func percent(n, of int) float64 {
	if of == 0 {
		return 0
	}
	return 100 * float64(n) / float64(of)
}
