package replay

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/unloop/unloop/deploy/replay/logs"
	"github.com/unloop/unloop/gateway"
	"github.com/unloop/unloop/schemas/checkpb"
	"github.com/unloop/unloop/schemas/event"
	"github.com/unloop/unloop/schemas/record"
)

// tally collects the figures of the report.
type tally struct {
	policies  *gateway.Policies
	report    *Report
	incidents map[string]*Incident
	sessions  map[string]*Session
	files     map[string]int // requests
	peaks     peaks
	looped    map[looping]map[string]bool // sessions
}

// looping is a policy and a tool whose repeated calls it found.
type looping struct{ policy, tool string }

func newTally(set *gateway.Policies) *tally {
	return &tally{
		policies: set, report: &Report{Bundle: set.Version(), Actions: map[string]int{}},
		incidents: map[string]*Incident{}, sessions: map[string]*Session{}, files: map[string]int{},
		peaks: peaks{}, looped: map[looping]map[string]bool{},
	}
}

// place counts a request and returns its position.
func (t *tally) place(file string, q *logs.Request) Place {
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

func (t *tally) unwatched(p *pending) {
	t.report.Unwatched++
	p.addTo(&t.report.Spent)
}

// overridden adds a request that an override or a kill switch applies to.
func (t *tally) overridden(at Place, p *pending, did, reason string) {
	p.addTo(&t.report.Spent)
	t.report.Actions[operatorActions[did]]++
	for _, o := range t.report.Operator {
		if o.Action == did && o.Reason == reason {
			o.Last = at
			p.addTo(&o.Cost)
			return
		}
	}
	o := &Overridden{Action: did, Reason: reason, First: at, Last: at}
	t.report.Operator = append(t.report.Operator, o)
	p.addTo(&o.Cost)
}

// operatorActions maps what recordings say about operators to actions.
var operatorActions = map[string]string{record.Blocked: "refuse", record.KillSwitch: "refuse", record.Exempted: "exempt"}

// decided adds a decision.
func (t *tally) decided(at Place, q *logs.Request, check *checkpb.Check, p *pending) {
	d := p.decision
	p.addTo(&t.report.Spent)
	t.report.Actions[d.GetAction().Label()]++
	if stops(d) {
		p.addTo(&t.report.Saved)
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
	t.found(at, s, q, check, p)
}

// found adds the findings of a decision.
func (t *tally) found(at Place, s *Session, q *logs.Request, check *checkpb.Check, p *pending) {
	flagged, stopped := map[string]bool{}, map[string]bool{} // an incident may have several findings
	for _, f := range p.decision.GetFindings() {
		i := t.incident(at, s, q, check, f)
		i.add(at, f)
		if !flagged[i.ID] {
			flagged[i.ID] = true
			i.Requests++
			p.addTo(&i.Wasted)
		}
		if f.GetAction().Stops() && !f.GetShadow() && !stopped[i.ID] {
			stopped[i.ID] = true
			p.addTo(&i.Saved)
		}
		t.noteTool(s, f)
	}
}

// limited reports whether a rule took an action.
func limited(check *checkpb.Check, d *checkpb.Decision) bool {
	for i, v := range d.GetLimits() {
		if v.GetAction() > checkpb.Action_ACTION_ALLOW && i < len(check.GetLimits()) && !check.GetLimits()[i].GetShadow() {
			return true
		}
	}
	return false
}

// delay returns how long the decision would have delayed the request.
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

func (t *tally) session(at Place, q *logs.Request, check *checkpb.Check) *Session {
	key := check.GetIdentity().GetSession()
	none := key == ""
	if none {
		key = check.GetIdentity().GetCaller()
	}
	s, known := t.sessions[key]
	if !known {
		s = &Session{Name: cmp.Or(SessionName(at.File, q), key)}
		if none {
			s.Name = "caller " + key
		}
		t.sessions[key] = s
	}
	return s
}

func (t *tally) incident(at Place, s *Session, q *logs.Request, check *checkpb.Check, f *checkpb.Finding) *Incident {
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

// add adds a finding to its incident.
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

// why describes a finding.
func why(f *checkpb.Finding) string {
	if f.GetSimilarity() > 0 {
		return fmt.Sprintf("%s (similarity %.3f)", f.Hint(), f.GetSimilarity())
	}
	return f.Hint()
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

// spent returns the cost of a request as known before its answer.
func (t *tally) spent(q *logs.Request, check *checkpb.Check) Cost {
	return t.cost(q.Model, &q.Outcome, int(check.GetInputTokens()))
}

// cost returns the cost of a request, with estimated tokens if none are recorded.
func (t *tally) cost(model string, o *logs.Outcome, estimated int) Cost {
	c := Cost{Requests: 1, InputTokens: o.InputTokens, OutputTokens: o.OutputTokens, USD: o.USD}
	if c.InputTokens == 0 && c.OutputTokens == 0 {
		c.InputTokens, c.Estimated = estimated, 1
	}
	if c.USD > 0 {
		return c
	}
	price, known := t.policies.Price(model)
	if !known {
		c.Unpriced = 1
		return c
	}
	c.USD = price.USD(c.InputTokens, o.CachedTokens, c.OutputTokens)
	if strings.Contains(strings.ToLower(model), "claude") {
		c.USD += price.Input / 1e6 * (writeFiveMinutes*float64(o.WrittenTokens) + writeHour*float64(o.WrittenHourTokens))
	}
	return c
}

// Anthropic's surcharges for input tokens that it writes to a cache, as shares of the input price:
// 25 % for five minutes, 100 % for an hour (docs.claude.com, Prompt caching, Pricing). Other
// providers charge nothing.
const (
	writeFiveMinutes = 0.25
	writeHour        = 1
)

// correct replaces the estimated cost of a request with the real one. An answer without tokens
// and cost changes nothing.
func (t *tally) correct(p *pending, o *logs.Outcome) {
	if o.InputTokens == 0 && o.OutputTokens == 0 && o.USD == 0 {
		return
	}
	real := t.cost(p.model, o, p.costs.InputTokens)
	for _, sum := range p.sums {
		sum.add(p.costs, -1)
		sum.add(real, 1)
	}
	p.costs = real
}

// addTo adds the cost of the request to a sum, and corrects the sum when the answer comes.
func (p *pending) addTo(sum *Cost) {
	sum.add(p.costs, 1)
	p.sums = append(p.sums, sum)
}

// nano is the precision of dollars. Sums are rounded so that corrections leave no residue.
const nano = 1e9

// Add adds o.
func (c *Cost) Add(o Cost) { c.add(o, 1) }

// add adds a multiple of o.
func (c *Cost) add(o Cost, times int) {
	c.Requests += times * o.Requests
	c.InputTokens += times * o.InputTokens
	c.OutputTokens += times * o.OutputTokens
	c.USD = math.Round((c.USD+float64(times)*o.USD)*nano) / nano
	c.Unpriced += times * o.Unpriced
	c.Estimated += times * o.Estimated
}

// summary returns the report so far.
func (t *tally) summary() *Report {
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
