package render

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"text/template"
	"time"

	"github.com/unloop/unloop/notifier/internal/sink"
	"github.com/unloop/unloop/schemas/event"
)

// maxTemplate bounds the text of a template, in bytes.
const maxTemplate = 16 << 10

// Template is a Go text/template of a body. Its data is a View.
type Template struct {
	parsed *template.Template
}

// View is the data of a template.
type View struct {
	ID, Endpoint, Key string
	Title             string
	// Link is the first loop's address on the dashboard; "" without --public-url.
	Link     string
	Resolved bool
	Time     time.Time
	// Event is the first of Events.
	Event  event.Event
	Events []event.Event
}

// functions returns what a template can call besides the built-in functions. None has access to
// files, the environment or the network.
func functions() template.FuncMap {
	return template.FuncMap{
		"json": func(v any) (string, error) {
			text, err := json.Marshal(v)
			return string(text), err
		},
		"upper":    strings.ToUpper,
		"lower":    strings.ToLower,
		"cut":      func(n int, s string) string { return Cut(s, max(n, 1)) },
		"join":     func(sep string, s []string) string { return strings.Join(s, sep) },
		"default":  func(d, s string) string { return map[bool]string{true: d, false: s}[s == ""] },
		"fields":   func(e event.Event) []Field { return Fields(&e) },
		"summary":  func(e event.Event) string { return Summary(&e) },
		"severity": func(e event.Event) string { return string(e.Severity()) },
		"tools":    func(e event.Event) string { return Tools(&e) },
		"saved":    func(e event.Event) string { return Saved(e.Data.Saved) },
		"release":  func(e event.Event) string { return Release(&e) },
	}
}

// ParseTemplate parses a template and runs it with an example, so that faults are found before
// there is a loop. The error contains no part of the template but names.
func ParseTemplate(text string) (*Template, error) {
	if len(text) > maxTemplate {
		return nil, fmt.Errorf("has %d bytes, at most %d are allowed", len(text), maxTemplate)
	}
	parsed, err := template.New("template").Option("missingkey=error").Funcs(functions()).Parse(text)
	if err != nil {
		return nil, fmt.Errorf("is no Go template: %s", strings.TrimPrefix(err.Error(), "template: "))
	}
	t := &Template{parsed}
	if _, err := t.Render(Example()); err != nil {
		return nil, fmt.Errorf("fails with an example: %w", err)
	}
	return t, nil
}

// errTooLong stops a template that writes too much.
var errTooLong = fmt.Errorf("writes more than %d bytes", sink.MaxBody)

// Render returns the text for a message, at most sink.MaxBody bytes.
func (t *Template) Render(m *sink.Message) (string, error) {
	v := View{ID: m.ID, Endpoint: m.Endpoint, Key: m.Key, Title: Title(m), Link: Link(m, &m.Events[0]), Resolved: m.Resolved, Time: m.Time, Event: m.Events[0], Events: m.Events}
	var b bounded
	err := t.parsed.Execute(&b, v)
	if errors.Is(err, errTooLong) {
		return "", errTooLong
	}
	if err != nil {
		return "", errors.New(strings.TrimPrefix(err.Error(), "template: "))
	}
	return b.String(), nil
}

// bounded is a buffer that refuses to grow beyond sink.MaxBody.
type bounded struct{ strings.Builder }

func (b *bounded) Write(p []byte) (int, error) {
	if b.Len()+len(p) > sink.MaxBody {
		return 0, errTooLong
	}
	return b.Builder.Write(p)
}

// Example returns a message in which every field of View is set.
func Example() *sink.Message {
	now := time.Date(2026, 5, 22, 14, 30, 0, 0, time.UTC)
	usd := 0.03
	e := event.New(event.Detected, "evt-example", now)
	e.TenantID, e.ProjectID, e.RequestID = "acme", "proj_abc123", "req_def456"
	e.Data = event.Data{
		LoopID: "viIzp0jq26E8k6XTjdCptc", Detector: "prompt", Policy: "agent-tools", Mode: event.ModeEnforce, Action: "reject",
		Fingerprint: "a3f7c2d1b8e4", HitCount: 6, Threshold: 5, WindowSeconds: 60, CooldownSeconds: 30, Model: "gpt-4o-mini", Session: "5e55",
		FirstSeen: now.Add(-time.Minute), LastSeen: now,
		Findings: []event.Finding{{Detector: "tool", Action: "reject", HitCount: 6, Tool: "read_file"}},
		Saved:    event.Saved{Requests: 1, InputTokens: 2500, USD: &usd},
	}
	return &sink.Message{ID: "evt-example", Endpoint: "example", Key: e.Data.LoopID, Events: []event.Event{e}, Time: now}
}
