package policy

import (
	"errors"
	"fmt"
	"net/url"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"
)

// constraint is what a field's check tag allows. The tag is a list of
// required, min=N, max=N, above=N, len=N, one=A|B, source=A|B, and the forms
// path, token, nonempty, descriptor, regex and url.
type constraint struct {
	required bool
	// standard is the default of a field, and zero says that 0 stands for it.
	standard string
	zero     bool
	min      *float64
	max      *float64
	above    *float64
	maxLen   int
	one      []string
	sources  []string
	form     string
}

func parseConstraint(tag string) constraint {
	var c constraint
	if tag == "" {
		return c
	}
	for part := range strings.SplitSeq(tag, ",") {
		name, value, _ := strings.Cut(part, "=")
		switch name {
		case "required":
			c.required = true
		case "zero":
			c.zero = true
		case "min":
			c.min = number(value)
		case "max":
			c.max = number(value)
		case "above":
			c.above = number(value)
		case "len":
			c.maxLen, _ = strconv.Atoi(value)
		case "one":
			c.one = strings.Split(value, "|")
		case "source":
			c.sources = strings.Split(value, "|")
		default:
			c.form = name
		}
	}
	return c
}

func number(s string) *float64 {
	f, err := strconv.ParseFloat(s, 64)
	if err != nil {
		return nil
	}
	return &f
}

// want returns what a field must be, for a value of the wrong type.
func (c constraint) want(kind reflect.Kind, n *yaml.Node) string {
	switch {
	case len(c.one) > 0:
		return oneOf(c.one)
	case kind == reflect.Bool:
		return "must be a boolean"
	case kind == reflect.Float64:
		return "must be a number"
	case kind == reflect.String:
		if n.Kind == yaml.ScalarNode && n.Value != "" && n.Tag != "!!null" {
			return fmt.Sprintf("must be a string: write %q", n.Value)
		}
		return "must be a string"
	case c.max != nil && exceeds(n, *c.max):
		return "must be <= " + format(*c.max)
	default:
		return c.integer()
	}
}

// exceeds reports whether a scalar is a number over the maximum.
func exceeds(n *yaml.Node, most float64) bool {
	f, err := strconv.ParseFloat(n.Value, 64)
	return (n.Tag == "!!int" || n.Tag == "!!float") && (err == nil || errors.Is(err, strconv.ErrRange)) && f > most
}

// integer returns which integers are allowed at the lower end.
func (c constraint) integer() string {
	switch {
	case c.min == nil:
		return "must be an integer"
	case *c.min == 0:
		return "must be an integer, 0 or more"
	case *c.min == 1:
		return "must be a positive integer"
	default:
		return "must be an integer >= " + format(*c.min)
	}
}

// number returns the fault of a number, or "".
func (c constraint) number(f float64, integer bool) string {
	switch {
	case c.min != nil && f < *c.min && integer && *c.min <= 1:
		return c.integer()
	case c.min != nil && f < *c.min:
		return "must be >= " + format(*c.min)
	case c.above != nil && f <= *c.above:
		return "must be > " + format(*c.above)
	case c.max != nil && f > *c.max:
		return "must be <= " + format(*c.max)
	}
	return ""
}

// text returns the fault of a string, or "".
func (c constraint) text(s string, r *report) string {
	switch {
	case len(c.one) > 0 && !slices.Contains(c.one, s):
		return oneOf(c.one)
	case len(c.sources) > 0 && !slices.Contains(c.sources, s) && !namesSource(s):
		return "must be one of " + strings.Join(c.sources, ", ") + ", header:NAME, query:NAME"
	case c.maxLen > 0 && utf8.RuneCountInString(s) > c.maxLen:
		return fmt.Sprintf("must have at most %d characters", c.maxLen)
	case c.required && s == "":
		return "must not be empty"
	}
	return r.formFault(c.form, s)
}

func namesSource(s string) bool {
	d, err := ParseDescriptor(s)
	return err == nil && (d.Source == "header" || d.Source == "query")
}

func (r *report) formFault(form, s string) string {
	switch form {
	case "path":
		if !strings.HasPrefix(s, "/") {
			return "must start with /"
		}
	case "nonempty", "token":
		if s == "" || form == "token" && strings.ContainsAny(s, " \t\r\n") {
			return "must not be empty or contain spaces"
		}
	case "descriptor":
		if _, err := ParseDescriptor(s); err != nil {
			return fmt.Sprintf("must be a descriptor (%s), not %q", descriptorForms, s)
		}
	case "regex":
		if err := r.patternFault(s); err != nil {
			return "must be a regular expression (RE2): " + err.Error()
		}
	case "https":
		if u, err := url.Parse(s); err != nil || u.Scheme != "https" || u.Host == "" || u.User != nil {
			return "must be an https URL"
		}
	}
	return ""
}

func oneOf(values []string) string {
	if len(values) == 1 {
		return "must be " + values[0]
	}
	return "must be one of " + strings.Join(values, ", ")
}

func format(f float64) string { return strconv.FormatFloat(f, 'f', -1, 64) }
