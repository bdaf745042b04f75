package reference

import (
	"encoding/json"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/unloop/unloop/gateway"
	"github.com/unloop/unloop/notifier"
	"github.com/unloop/unloop/schemas/event"
	"github.com/unloop/unloop/schemas/policy"
)

func policyFields(string) (string, error) {
	fields, err := document(policy.Schema, "Bundle")
	return fields + identities(), err
}

// identities describes what selectors and rules compare of a request's sender.
func identities() string {
	var rows [][]string
	for _, s := range gateway.IdentitySources() {
		var from []string
		for _, name := range s.From {
			if !strings.Contains(name, " ") {
				name = code(name)
			}
			from = append(from, name)
		}
		rows = append(rows, []string{s.Part, s.Is, strings.Join(from, ", ")})
	}
	return "\n## Identity\n\nWho sends a request. Each part is taken from the first of its sources that the request has. Hashes are those that events show.\n" + table([]string{"part", "is", "from"}, rows)
}

func notifyFields(string) (string, error) { return document(notifier.Schema, "File") }

func eventFields(string) (string, error) { return document(event.Schema, "Event") }

// schema is a JSON Schema, as far as the published ones go.
type schema struct {
	Ref         string             `json:"$ref"`
	Type        any                `json:"type"`
	Description string             `json:"description"`
	Properties  map[string]*schema `json:"properties"`
	Required    []string           `json:"required"`
	Items       *schema            `json:"items"`
	Additional  any                `json:"additionalProperties"`
	Default     any                `json:"default"`
	Enum        []any              `json:"enum"`
	Const       any                `json:"const"`
	Minimum     any                `json:"minimum"`
	Maximum     any                `json:"maximum"`
	Above       any                `json:"exclusiveMinimum"`
	MinLength   any                `json:"minLength"`
	MaxLength   any                `json:"maxLength"`
	MaxItems    any                `json:"maxItems"`
	Pattern     string             `json:"pattern"`
	Format      string             `json:"format"`
	OneOf       []*schema          `json:"oneOf"`
	AllOf       []*schema          `json:"allOf"`
	Then        *schema            `json:"then"`
	Else        *schema            `json:"else"`
	Defs        map[string]*schema `json:"$defs"`
}

// objects describes the objects of a schema, each once and below the one that has it.
type objects struct {
	defs  map[string]*schema
	known map[string]bool
	out   strings.Builder
}

// document describes a schema whose root is called name.
func document(text []byte, name string) (string, error) {
	var root schema
	if err := json.Unmarshal(text, &root); err != nil {
		return "", err
	}
	o := objects{defs: root.Defs, known: map[string]bool{}}
	o.describe(name, &root)
	return o.out.String(), nil
}

// describe writes the table of an object and then those of the objects below it.
func (o *objects) describe(name string, s *schema) {
	s = fields(s)
	if s == nil || o.known[name] {
		return
	}
	o.known[name] = true
	fmt.Fprintf(&o.out, "\n## %s\n", name)
	if s.Description != "" {
		fmt.Fprintf(&o.out, "\n%s\n", s.Description)
	}
	var rows [][]string
	below := map[string]*schema{}
	var order []string
	for _, field := range slices.Sorted(maps.Keys(s.Properties)) {
		p := s.Properties[field]
		kind, child, at := o.kind(field, p)
		if child != nil {
			below[at] = child
			order = append(order, at)
		}
		rows = append(rows, []string{code(field), kind, preset(s, field), constraint(p), p.Description})
	}
	o.out.WriteString(table([]string{"field", "type", "default", "constraint", "meaning"}, rows))
	for _, at := range order {
		o.describe(at, below[at])
	}
	for _, one := range s.AllOf {
		if one.Then != nil && one.Then.Properties["algorithm_config"] != nil {
			_, child, at := o.kind("", one.Then.Properties["algorithm_config"])
			o.describe(at, child)
		}
	}
}

// fields returns the part of a schema that lists an object's fields: blocks that can be
// off list them for the case that they are on.
func fields(s *schema) *schema {
	for _, part := range append([]*schema{s, s.Then, s.Else}, s.OneOf...) {
		if part == nil {
			continue
		}
		if part != s {
			part = fields(part)
		}
		if part != nil && len(part.Properties) > 0 && part.Type != nil {
			return part
		}
	}
	return nil
}

// kind returns the type of a field as words, and the object behind it with its name.
func (o *objects) kind(field string, s *schema) (words string, child *schema, name string) {
	switch {
	case s.Ref != "":
		name = path.Base(s.Ref)
		if def := o.defs[name]; def != nil && fields(def) == nil {
			return o.kind(field, def)
		}
		return fmt.Sprintf("[%s](#%s)", name, strings.ToLower(name)), o.defs[name], name
	case s.Items != nil:
		words, child, name = o.kind(field, s.Items)
		return "list of " + words, child, name
	case len(s.OneOf) > 0:
		var all []string
		for _, one := range s.OneOf {
			words, _, _ := o.kind(field, one)
			all = append(all, words)
		}
		return strings.Join(slices.Compact(all), " or "), nil, ""
	case len(s.Properties) > 0:
		return fmt.Sprintf("[%s](#%s)", field, strings.ToLower(field)), s, field
	}
	if values, ok := s.Additional.(map[string]any); ok {
		if ref, ok := values["$ref"].(string); ok {
			name = path.Base(ref)
			return fmt.Sprintf("map to [%s](#%s)", name, strings.ToLower(name)), o.defs[name], name
		}
		return "map to " + typeWords(values["type"]), nil, ""
	}
	return typeWords(s.Type), nil, ""
}

// typeWords returns a type as words; what has none is a string.
func typeWords(kind any) string {
	switch kind := kind.(type) {
	case string:
		return kind
	case []any:
		var all []string
		for _, one := range kind {
			all = append(all, fmt.Sprint(one))
		}
		return strings.Join(all, " or ")
	}
	return "string"
}

// preset returns the default of a field, or that it is required.
func preset(s *schema, field string) string {
	if slices.Contains(s.Required, field) {
		return "required"
	}
	value := s.Properties[field].Default
	if value == nil {
		return ""
	}
	text, err := json.Marshal(value)
	if err != nil || string(text) == `""` {
		return ""
	}
	return code(string(text))
}

// constraint returns the values that a field may have.
func constraint(s *schema) string {
	var parts []string
	if s.Items != nil {
		parts = append(parts, constraint(s.Items))
	}
	for _, one := range s.OneOf {
		parts = append(parts, constraint(one))
	}
	var values []string
	for _, value := range s.Enum {
		values = append(values, code(fmt.Sprint(value)))
	}
	parts = append(parts, strings.Join(values, ", "), bounds(s))
	if s.Pattern != "" {
		parts = append(parts, code(s.Pattern))
	}
	if s.Format != "" {
		parts = append(parts, s.Format)
	}
	parts = slices.DeleteFunc(parts, func(part string) bool { return part == "" })
	return strings.Join(slices.Compact(parts), "; ")
}

// bounds returns the least and the greatest value or length.
func bounds(s *schema) string {
	var parts []string
	for _, bound := range []struct {
		value  any
		before string
		after  string
	}{
		{s.Minimum, "≥ ", ""}, {s.Above, "> ", ""}, {s.Maximum, "≤ ", ""},
		{s.MaxLength, "≤ ", " characters"}, {s.MaxItems, "≤ ", " items"},
	} {
		if n, ok := bound.value.(float64); ok {
			parts = append(parts, bound.before+number(n)+bound.after)
		}
	}
	if s.MinLength != nil && len(s.Enum) == 0 {
		parts = append(parts, "not empty")
	}
	return strings.Join(parts, ", ")
}

func number(n float64) string {
	text, _ := json.Marshal(n) // a finite number always has a form
	return string(text)
}
