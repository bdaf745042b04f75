package rerun

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/unloop/unloop/deploy/internal/replay"
	"github.com/unloop/unloop/schemas/checkpb"
	"github.com/unloop/unloop/schemas/event"
	"github.com/unloop/unloop/schemas/policy"
)

// tally gathers what becomes the report.
type tally struct {
	policies  *policy.Set
	report    *Report
	incidents map[string]*Incident
	sessions  map[string]*Session
	files     map[string]int // requests
	peaks     peaks
	looped    map[looping]map[string]bool // sessions
}

// looping is a tool whose calls a policy found repeating.
type looping struct{ policy, tool string }

func newTally(set *policy.Set) *tally {
	return &tally{
		policies: set, report: &Report{Bundle: set.Version(), Actions: map[string]int{}},
		incidents: map[string]*Incident{}, sessions: map[string]*Session{}, files: map[string]int{},
		peaks: peaks{}, looped: map[looping]map[string]bool{},
	}
}

// place notes where a request stands.
func (t *tally) place(file string, q *replay.Request) Place {
	t.report.Requests++
	t.files[file]++
	p := Place{File: file, Line: q.Line, Request: t.files[file]}
	if !q.Time.IsZero() {
		at := q.Time
		p.Time = &at
		if t.report.From == nil || at.Before(*t.report.From) {
			t.report.From = &at
		}
		if t.report.To == nil || at.After(*t.report.To) {
			t.report.To = &at
		}
	}
	return p
}

func (t *tally) unwatched(q *replay.Request) {
	t.report.Unwatched++
	t.report.Spent.add(t.cost(q, 0))
}

// judged notes a decision.
func (t *tally) judged(at Place, q *replay.Request, check *checkpb.Check, d *checkpb.Decision) {
	cost := t.cost(q, int(check.GetInputTokens()))
	t.report.Spent.add(cost)
	t.report.Actions[d.GetAction().Label()]++
	if stops(d) {
		t.report.Saved.add(cost)
	}
	t.report.DelaySeconds += delay(d).Seconds()
	if limited(check, d) {
		t.report.Limited++
	}
	t.peaks.note(check, d)
	s := t.session(at, q, check)
	s.Requests++
	if len(d.GetFindings()) == 0 {
		return
	}
	if s.Flagged++; s.Flagged == 1 {
		s.First = at
	}
	if stops(d) {
		s.Stopped++
	}
	flagged := map[string]bool{} // an incident may have several findings
	for _, f := range d.GetFindings() {
		i := t.incident(at, s, q, check, f)
		i.add(at, f)
		if !flagged[i.ID] {
			i.Requests++
		}
		if f.GetAction().Stops() && !f.GetShadow() && !flagged[i.ID+"\x00stopped"] {
			flagged[i.ID+"\x00stopped"] = true
			i.Saved.add(cost)
		}
		flagged[i.ID] = true
		t.noteTool(s, f)
	}
}

// limited says whether a rule did something about the request.
func limited(check *checkpb.Check, d *checkpb.Decision) bool {
	for i, v := range d.GetLimits() {
		if v.GetAction() > checkpb.Action_ACTION_ALLOW && i < len(check.GetLimits()) && !check.GetLimits()[i].GetShadow() {
			return true
		}
	}
	return false
}

// delay is how long the decision would have held the request back.
func delay(d *checkpb.Decision) time.Duration {
	var longest uint32
	if d.GetAction() == checkpb.Action_ACTION_THROTTLE {
		for _, f := range d.GetFindings() {
			if !f.GetShadow() {
				longest = max(longest, f.GetDelayMs())
			}
		}
	}
	return time.Duration(longest) * time.Millisecond
}

func (t *tally) session(at Place, q *replay.Request, check *checkpb.Check) *Session {
	key := check.GetIdentity().GetSession()
	name := cmp.Or(session(at.File, q), key)
	if key == "" {
		key = check.GetIdentity().GetCaller()
		name = "caller " + key
	}
	s, known := t.sessions[key]
	if !known {
		s = &Session{Name: name}
		t.sessions[key] = s
	}
	return s
}

func (t *tally) incident(at Place, s *Session, q *replay.Request, check *checkpb.Check, f *checkpb.Finding) *Incident {
	i, known := t.incidents[f.GetLoopId()]
	if !known {
		i = &Incident{
			ID: f.GetLoopId(), Policy: f.GetPolicy(), Mode: event.ModeEnforce, Session: s.Name, First: at,
			Tenant: check.GetIdentity().GetTenant(), Model: cmp.Or(check.GetModel(), q.Model), strength: -1,
		}
		if f.GetShadow() {
			i.Mode = event.ModeShadow
		}
		t.incidents[i.ID] = i
		t.report.Incidents = append(t.report.Incidents, i)
	}
	return i
}

// add takes a finding into its incident.
func (i *Incident) add(at Place, f *checkpb.Finding) {
	i.Last = at
	i.Detectors = insert(i.Detectors, f.GetDetector())
	i.Rules = insert(i.Rules, f.GetRule())
	i.Tools = insert(i.Tools, f.GetTool())
	strength := int32(f.GetAction())
	if strength < i.strength || strength == i.strength && int(f.GetHitCount()) < i.Count {
		return
	}
	i.strength, i.Action, i.Why = strength, f.GetAction().Label(), why(f)
	i.Count, i.Threshold = int(f.GetHitCount()), int(f.GetThreshold())
}

func insert(list []string, s string) []string {
	if s == "" || slices.Contains(list, s) {
		return list
	}
	return append(list, s)
}

// why says what was found.
func why(f *checkpb.Finding) string {
	if f.GetMessage() != "" {
		return f.GetMessage()
	}
	what := "the same request"
	if f.GetDetector() == "prompt" {
		what = "the same newest messages"
	}
	return fmt.Sprintf("%s %d times within %d s, where the threshold is %d", what, f.GetHitCount(), f.GetWindowSeconds(), f.GetThreshold())
}

func (t *tally) noteTool(s *Session, f *checkpb.Finding) {
	if f.GetRule() != "repeat" {
		return
	}
	key := looping{f.GetPolicy(), f.GetTool()}
	if t.looped[key] == nil {
		t.looped[key] = map[string]bool{}
	}
	t.looped[key][s.Name] = true
}

// cost is what a request cost, or is estimated to.
func (t *tally) cost(q *replay.Request, estimated int) Cost {
	c := Cost{Requests: 1, InputTokens: q.InputTokens, OutputTokens: q.OutputTokens, USD: q.USD}
	if c.InputTokens == 0 {
		c.InputTokens = estimated
	}
	if c.USD > 0 {
		return c
	}
	price, known := t.policies.Price(q.Model)
	if !known {
		c.Unpriced = 1
		return c
	}
	c.USD = price.USD(c.InputTokens, 0, c.OutputTokens)
	return c
}

func (c *Cost) add(o Cost) {
	c.Requests += o.Requests
	c.InputTokens += o.InputTokens
	c.OutputTokens += o.OutputTokens
	c.USD += o.USD
	c.Unpriced += o.Unpriced
}

// finish is the report so far.
func (t *tally) finish() *Report {
	out := *t.report
	out.Files, out.Sessions = len(t.files), len(t.sessions)
	out.Incidents = slices.Clone(t.report.Incidents)
	for _, key := range slices.Sorted(maps.Keys(t.sessions)) {
		if s := t.sessions[key]; s.Flagged > 0 {
			out.Flagged = append(out.Flagged, s)
		}
	}
	slices.SortStableFunc(out.Flagged, func(a, b *Session) int {
		return cmp.Or(cmp.Compare(b.Stopped, a.Stopped), cmp.Compare(b.Flagged, a.Flagged), cmp.Compare(a.Name, b.Name))
	})
	out.Suggestions = t.suggest()
	return &out
}
