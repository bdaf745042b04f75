package scan

import (
	"cmp"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/unloop/unloop/deploy/replay"
	"github.com/unloop/unloop/schemas/excerpts"
)

// Report is the result of a scan.
type Report struct {
	Bundle string `json:"bundle"`
	// Files counts files with requests, Unreadable entries that could not be read.
	Files      int `json:"files"`
	Unreadable int `json:"unreadable"`
	Sessions   int `json:"sessions"`
	// Looped counts sessions with a loop, Hinted and Stopped those in which a request would
	// have been hinted or stopped.
	Looped  int `json:"looped_sessions"`
	Hinted  int `json:"hinted_sessions"`
	Stopped int `json:"stopped_sessions"`
	// From and To are the first and the last recorded time; absent without any.
	From *time.Time `json:"from,omitempty"`
	To   *time.Time `json:"to,omitempty"`
	// Spent is the cost of all requests, Wasted of those in loops, which took
	// WastedSeconds, and Saved of those that would have been stopped.
	Spent         replay.Cost `json:"spent"`
	Wasted        replay.Cost `json:"wasted"`
	WastedSeconds float64     `json:"wasted_seconds"`
	Saved         replay.Cost `json:"saved"`
	Agents        []*Agent    `json:"agents"`
	// Loops are all loops, the most expensive first.
	Loops []*Loop `json:"loops"`

	agents   map[string]*Agent
	sessions map[place]bool
}

// Agent has the totals of one program.
type Agent struct {
	Name     string `json:"name"`
	Title    string `json:"title"`
	Sessions int    `json:"sessions"`
	Looped   int    `json:"looped_sessions"`
	// Guard is the command that runs it through Unloop; "" if not known.
	Guard string `json:"guard,omitempty"`
}

// Loop is a loop, and what it repeated.
type Loop struct {
	*replay.Incident
	Agent string `json:"agent,omitempty"`
	// Text says what was repeated, in the words of notifications.
	Text string `json:"text"`
	// Did says at which requests of the session something would have been done.
	Did Did `json:"at_request"`
	// SessionRequests is the number of the session's requests.
	SessionRequests int           `json:"session_requests"`
	Seconds         float64       `json:"seconds"`
	Shown           excerpts.Loop `json:"-"`
	file            File
}

// Name returns a short name of the session: its file, unless that does not identify it.
func (l *Loop) Name() string {
	file := filepath.Base(l.First.File)
	if id, ok := strings.CutPrefix(l.Session, file+"#"); ok && !strings.Contains(file, id) {
		return l.Session
	}
	return file
}

// places returns the names that labels may have for the session.
func (l *Loop) places() []place {
	return []place{{absolute(l.First.File), l.Session}, {"", l.Session}}
}

// read returns the labels of the sessions that were read.
func (r *Report) read(labels Labels) Labels {
	out := Labels{}
	for at, l := range labels {
		if r.sessions[at] {
			out[at] = l
		}
	}
	return out
}

func newReport() *Report {
	return &Report{agents: map[string]*Agent{}, sessions: map[place]bool{}, Agents: []*Agent{}, Loops: []*Loop{}}
}

// add adds the result of a file.
func (r *Report) add(f File, one *result) {
	r.Unreadable += one.faults
	if one.report == nil || one.report.Requests == 0 {
		return
	}
	r.Files++
	r.Bundle = one.report.Bundle
	r.Sessions += one.report.Sessions
	r.Spent.Add(one.report.Spent)
	r.Saved.Add(one.report.Saved)
	r.widen(one.report.From, one.report.To)
	agent := r.agent(f)
	agent.Sessions += one.report.Sessions
	for session := range one.sessions {
		r.sessions[place{absolute(f.Path), session}], r.sessions[place{"", session}] = true, true
	}
	looped, hinted, stopped := map[string]bool{}, map[string]bool{}, map[string]bool{}
	for _, i := range one.report.Incidents {
		l := &Loop{Incident: i, Agent: agent.Name, Text: one.texts[i.ID], Did: one.marks[i.ID], SessionRequests: one.sessions[i.Session], Shown: one.shown[i.ID], file: f}
		if i.First.Time != nil && i.Last.Time != nil {
			l.Seconds = i.Last.Time.Sub(*i.First.Time).Seconds()
		}
		r.Loops = append(r.Loops, l)
		r.Wasted.Add(i.Wasted)
		r.WastedSeconds += l.Seconds
		looped[i.Session], hinted[i.Session], stopped[i.Session] = true, hinted[i.Session] || l.Did.Hinted > 0, stopped[i.Session] || l.Did.Stopped > 0
	}
	agent.Looped += len(looped)
	r.Looped += len(looped)
	r.Hinted += count(hinted)
	r.Stopped += count(stopped)
}

func count(set map[string]bool) (n int) {
	for _, in := range set {
		if in {
			n++
		}
	}
	return n
}

// title is what people call the program whose sessions a file has.
func (f *File) title() string {
	if f.Agent == nil {
		return "recordings and exports"
	}
	return f.Agent.Title
}

func (r *Report) agent(f File) *Agent {
	a := &Agent{Name: "recording", Title: f.title()}
	if f.Agent != nil {
		a.Name, a.Guard = f.Agent.Name, f.Agent.Guard
	}
	if known := r.agents[a.Name]; known != nil {
		return known
	}
	r.agents[a.Name] = a
	return a
}

func (r *Report) widen(from, to *time.Time) {
	if from != nil && (r.From == nil || from.Before(*r.From)) {
		r.From = from
	}
	if to != nil && (r.To == nil || to.After(*r.To)) {
		r.To = to
	}
}

// finish sorts the report.
func (r *Report) finish() {
	for _, name := range slices.Sorted(maps.Keys(r.agents)) {
		r.Agents = append(r.Agents, r.agents[name])
	}
	slices.SortStableFunc(r.Agents, func(a, b *Agent) int { return cmp.Compare(b.Sessions, a.Sessions) })
	slices.SortStableFunc(r.Loops, func(a, b *Loop) int {
		return cmp.Or(cmp.Compare(b.Wasted.USD, a.Wasted.USD), cmp.Compare(b.Requests, a.Requests), cmp.Compare(b.Seconds, a.Seconds), cmp.Compare(a.First.File, b.First.File))
	})
}
