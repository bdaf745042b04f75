// Package match selects events by their fields: for the routes of notifications and for
// silences.
//
// It does not know what is done with the events that it selects.
package match

import (
	"fmt"
	"slices"
	"strings"

	"github.com/unloop/unloop/schemas/event"
	"github.com/unloop/unloop/schemas/glob"
)

// Fields lists the fields that matchers can name.
func Fields() []string {
	return []string{"tenant", "project", "policy", "detector", "severity", "action", "mode", "model", "session", "loop"}
}

// values return the values of Fields.
var values = map[string]func(*event.Event) string{
	"tenant":   func(e *event.Event) string { return e.TenantID },
	"project":  func(e *event.Event) string { return e.ProjectID },
	"policy":   func(e *event.Event) string { return e.Data.Policy },
	"detector": func(e *event.Event) string { return e.Data.Detector },
	"severity": func(e *event.Event) string { return string(e.Severity()) },
	"action":   func(e *event.Event) string { return e.Data.Action },
	"mode":     func(e *event.Event) string { return e.Data.Mode },
	"model":    func(e *event.Event) string { return e.Data.Model },
	"session":  func(e *event.Event) string { return e.Data.Session },
	"loop":     func(e *event.Event) string { return e.Data.LoopID },
}

// Value returns the value of one of Fields, "" for an unknown one.
func Value(e *event.Event, field string) string {
	if of, known := values[field]; known {
		return of(e)
	}
	return ""
}

// Matchers holds patterns by field. A pattern is that of package glob; one that begins
// with ! excludes what the rest of it matches.
type Matchers map[string][]string

// Match reports whether an event matches every field: it matches one of the field's
// patterns, if there are any that do not exclude, and none that excludes.
func (m Matchers) Match(e *event.Event) bool {
	for field, patterns := range m {
		if !matchField(patterns, Value(e, field)) {
			return false
		}
	}
	return true
}

func matchField(patterns []string, value string) bool {
	matched, included := false, false
	for _, p := range patterns {
		if excluded, ok := strings.CutPrefix(p, "!"); ok {
			if glob.Match(excluded, value) {
				return false
			}
			continue
		}
		included = true
		matched = matched || glob.Match(p, value)
	}
	return matched || !included
}

// String returns the matchers as FIELD=PATTERN, sorted by field; the patterns of one field
// are separated by |.
func (m Matchers) String() string {
	parts := make([]string, 0, len(m))
	for field, patterns := range m {
		parts = append(parts, field+"="+strings.Join(patterns, "|"))
	}
	slices.Sort(parts)
	return strings.Join(parts, " ")
}

// Bounds of matchers.
const (
	maxPatterns = 100
	maxPattern  = 256
)

// Fault returns the fault of a field's patterns, or "".
func Fault(field string, patterns []string) string {
	switch {
	case !slices.Contains(Fields(), field):
		return fmt.Sprintf("%q is not a field of events; use %s", field, strings.Join(Fields(), ", "))
	case len(patterns) == 0:
		return fmt.Sprintf("%s has no pattern; write one, such as %s: acme-*", field, field)
	case len(patterns) > maxPatterns:
		return fmt.Sprintf("%s has %d patterns; at most %d are allowed", field, len(patterns), maxPatterns)
	}
	for _, p := range patterns {
		switch {
		case len(p) > maxPattern:
			return fmt.Sprintf("%s has a pattern of %d characters; at most %d are allowed", field, len(p), maxPattern)
		case p == "!":
			return fmt.Sprintf("%s has the pattern \"!\", which excludes nothing; write what it excludes behind it", field)
		}
	}
	return ""
}

// Faults returns the faults of the matchers, sorted by field.
func (m Matchers) Faults() []string {
	var faults []string
	for field, patterns := range m {
		if fault := Fault(field, patterns); fault != "" {
			faults = append(faults, fault)
		}
	}
	slices.Sort(faults)
	return faults
}

// Parse reads matchers of the form FIELD=PATTERN. Several patterns of one field are
// alternatives.
func Parse(texts []string) (Matchers, error) {
	m := Matchers{}
	for _, text := range texts {
		field, pattern, ok := strings.Cut(text, "=")
		if !ok {
			return nil, fmt.Errorf("matcher %q must have the form FIELD=PATTERN, such as tenant=acme", text)
		}
		m[field] = append(m[field], pattern)
	}
	if faults := m.Faults(); len(faults) > 0 {
		return nil, fmt.Errorf("matcher: %s", strings.Join(faults, "; "))
	}
	return m, nil
}
