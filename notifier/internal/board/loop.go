package board

import (
	"slices"
	"strings"
	"time"

	"github.com/unloop/unloop/schemas/event"
	"github.com/unloop/unloop/schemas/openloop"
)

// The states of a loop.
const (
	Open     = "open"
	Resolved = "resolved"
)

// Loop is a loop as the dashboard shows it: the data of its newest event, under the names of
// events, and fields that the dashboard adds.
type Loop struct {
	event.Data
	State     string `json:"state"`
	Severity  string `json:"severity"`
	Tenant    string `json:"tenant"`
	Project   string `json:"project"`
	RequestID string `json:"request_id"`
	// Ends is when an open loop ends if nothing more is found, or when a resolved one ended.
	Ends time.Time `json:"ends,omitzero"`
	// SilencedUntil is set while a silence suppresses messages about the loop.
	SilencedUntil time.Time `json:"silenced_until,omitzero"`

	// Title names the loop in a few words, Text says what repeats and how often.
	Title string `json:"title"`
	Text  string `json:"text"`
	// Findings replace those of the data in JSON.
	Findings []Finding `json:"findings"`

	course []Point   // its states, oldest first
	at     time.Time // of the newest event
	gone   bool      // its record was removed
	unkept bool      // it is open, but its record was dropped
	source *event.Event
}

// Finding is a finding with a title and a text, as a Loop has them.
type Finding struct {
	event.Finding
	Title string `json:"title"`
	Text  string `json:"text"`
}

// Parse reads the record of an open loop.
func (l *Loop) Parse(stored []byte) error {
	var in openloop.Record
	if err := in.Parse(stored); err != nil {
		return err
	}
	*l = loopOfRecord(&in)
	return nil
}

// Tools returns the names of the tools in the loop's findings, each once.
func (l *Loop) Tools() (names []string) {
	for i := range l.Findings {
		for name := range strings.SplitSeq(l.Findings[i].Tool, ",") {
			if name != "" && !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
	}
	return names
}

// loopOf returns the loop that an event describes.
func loopOf(e *event.Event) Loop {
	d := &e.Data
	l := Loop{
		Data: *d, State: Open, Severity: string(e.Severity()), Tenant: e.TenantID, Project: e.ProjectID, RequestID: e.RequestID,
		Title: d.Facts().Title(), Text: d.Facts().Text(), Findings: make([]Finding, len(d.Findings)), at: e.Timestamp, source: e,
	}
	for i := range d.Findings {
		facts := d.Findings[i].Facts()
		l.Findings[i] = Finding{d.Findings[i], facts.Title(), facts.Text()}
	}
	l.Ends = l.LastSeen.Add(time.Duration(max(l.WindowSeconds, l.CooldownSeconds, 1)) * time.Second)
	if e.Type == event.Resolved {
		l.State, l.Ends = Resolved, e.Timestamp
	}
	return l
}

// loopOfRecord returns the loop of an incident's record.
func loopOfRecord(in *openloop.Record) Loop {
	e := event.Event{TenantID: in.Tenant, ProjectID: in.Project, RequestID: in.RequestID, Data: in.Data}
	l := loopOf(&e)
	if !in.Ends.IsZero() {
		l.Ends = in.Ends
	}
	return l
}
