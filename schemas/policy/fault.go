package policy

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// Fault is one fault of a bundle.
type Fault struct {
	// Line counts from 1; 0 where the bundle was not read from text.
	Line int
	// Field is the path of the field, such as policies[0].spec.prompt.max_hits;
	// empty for the bundle as a whole.
	Field string
	// Message says what is wrong and what is allowed.
	Message string
}

func (f Fault) String() string {
	var b strings.Builder
	if f.Line > 0 {
		fmt.Fprintf(&b, "line %d: ", f.Line)
	}
	if f.Field != "" {
		b.WriteString(f.Field + ": ")
	}
	b.WriteString(f.Message)
	return b.String()
}

// Faults are all faults of a bundle, in the order of its lines.
type Faults struct{ List []Fault }

// Error has one fault a line.
func (f *Faults) Error() string {
	lines := make([]string, len(f.List))
	for i, fault := range f.List {
		lines[i] = fault.String()
	}
	return strings.Join(lines, "\n")
}

// report gathers faults and warnings while a bundle is read and checked, and
// knows the line of each field that was read.
type report struct {
	lines    map[string]int
	faulty   map[string]bool
	faults   []Fault
	warnings []Fault
	// patterns are the results of patternFault: most policies share their patterns.
	patterns map[string]error
}

func newReport() *report {
	return &report{lines: map[string]int{}, faulty: map[string]bool{}, patterns: map[string]error{}}
}

// fault records a fault of a field. Only a field's first fault counts, since others are
// mostly its consequences.
func (r *report) fault(path, message string) {
	r.faultAt(r.line(path), path, message)
}

func (r *report) faultAt(line int, path, message string) {
	if r.faulty[path] {
		return
	}
	r.faulty[path] = true
	r.faults = append(r.faults, Fault{Line: line, Field: path, Message: message})
}

func (r *report) warn(path, message string) {
	r.warnings = append(r.warnings, Fault{Line: r.line(path), Field: path, Message: message})
}

// patternFault returns why a regular expression does not compile.
func (r *report) patternFault(pattern string) error {
	err, known := r.patterns[pattern]
	if !known {
		_, err = regexp.Compile(pattern)
		r.patterns[pattern] = err
	}
	return err
}

// line returns the line of a field, or of the nearest enclosing field that was read.
func (r *report) line(path string) int {
	for {
		if line, ok := r.lines[path]; ok {
			return line
		}
		i := strings.LastIndexAny(path, ".[")
		if i < 0 {
			return r.lines[""]
		}
		path = path[:i]
	}
}

// read reports whether a field was in the text of the bundle.
func (r *report) read(path string) bool {
	_, ok := r.lines[path]
	return ok
}

// err is nil when there are no faults.
func (r *report) err() error {
	if len(r.faults) == 0 {
		return nil
	}
	slices.SortStableFunc(r.faults, func(a, b Fault) int { return cmp.Compare(a.Line, b.Line) })
	return &Faults{List: r.faults}
}

// fieldName returns the last name of a path, with its index if it has one.
func fieldName(path string) string {
	if i := strings.LastIndexByte(path, '.'); i >= 0 {
		return path[i+1:]
	}
	return path
}

func join(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}
