package policy

import (
	"encoding/json"
	"net/netip"
	"reflect"
	"strings"
	"time"
)

// GenerateSchema returns the JSON Schema of a document that Decode or Parse reads into a
// struct of the given type, by its fields and their tags. It has no rules about more than
// one field: reading is stricter.
func GenerateSchema(t reflect.Type, id, title string) ([]byte, error) {
	b := schemaBuilder{defs: map[string]any{}}
	root := b.object(reflect.New(t).Elem())
	root["$schema"] = "https://json-schema.org/draft/2020-12/schema"
	root["$id"] = id
	root["title"] = title
	root["$defs"] = b.defs
	data, err := json.MarshalIndent(root, "", "  ")
	if err != nil {
		return nil, err
	}
	return append(data, '\n'), nil
}

// schemaBuilder gathers the definitions of the types that it meets.
type schemaBuilder struct{ defs map[string]any }

type object = map[string]any

// object is the schema of a struct, with its defaults.
func (b *schemaBuilder) object(v reflect.Value) object {
	setDefaults(v)
	properties, required := object{}, []string{}
	for _, f := range fieldsOf(v) {
		properties[f.name] = b.property(f)
		if f.required {
			required = append(required, f.name)
		}
	}
	if v.Type() == reflect.TypeFor[Rule]() {
		// Its schema is that of the algorithm: ruleSchema.
		properties["algorithm_config"] = object{"type": "object", "description": "The limits, as the algorithm names them."}
		required = append(required, "algorithm_config")
	}
	s := object{"type": "object", "properties": properties, "additionalProperties": false}
	if len(required) > 0 {
		s["required"] = required
	}
	return s
}

func (b *schemaBuilder) property(f field) object {
	s := b.schema(f.value.Type(), f.constraint)
	s["description"] = f.doc
	if kind := f.value.Kind(); !f.required && kind != reflect.Struct && kind != reflect.Pointer && (!f.optional || !f.value.IsZero()) {
		s["default"] = f.value.Interface()
	}
	return s
}

// schema is that of a type, under a field's constraint.
func (b *schemaBuilder) schema(t reflect.Type, c constraint) object {
	switch t {
	case reflect.TypeFor[time.Time]():
		return object{"type": "string", "format": "date-time"}
	case durationType:
		return object{"type": "string", "description": "A duration such as 30s or 5m."}
	case reflect.TypeFor[netip.Prefix]():
		return object{"type": "string"}
	case reflect.TypeFor[Text]():
		return object{"type": []string{"string", "number", "boolean"}}
	case reflect.TypeFor[RejectAnswer]():
		return object{"oneOf": []object{
			{"enum": []RejectAnswer{RejectAuto, RejectSynthetic}}, {"type": "integer", "minimum": minReject, "maximum": maxReject}, {"type": "string", "pattern": "^[45][0-9][0-9]$"},
		}}
	case reflect.TypeFor[Ignored]():
		return object{"type": "object"}
	case reflect.TypeFor[Strings]():
		element := c.schema(object{"type": "string"})
		return object{"oneOf": []object{element, {"type": "array", "items": element}}}
	}
	switch t.Kind() {
	case reflect.Pointer:
		return b.schema(t.Elem(), c)
	case reflect.Struct:
		return b.reference(t)
	case reflect.Slice:
		return object{"type": "array", "items": b.schema(t.Elem(), c)}
	case reflect.Map:
		return object{"type": "object", "additionalProperties": b.schema(t.Elem(), constraint{})}
	default:
		return c.schema(object{"type": jsonType(t.Kind())})
	}
}

func jsonType(kind reflect.Kind) string {
	switch kind {
	case reflect.Bool:
		return "boolean"
	case reflect.Int, reflect.Int64:
		return "integer"
	case reflect.Float64:
		return "number"
	default:
		return "string"
	}
}

// reference adds a struct's schema to the definitions and returns a reference to it.
func (b *schemaBuilder) reference(t reflect.Type) object {
	name := t.Name()
	ref := object{"$ref": "#/$defs/" + name}
	if _, known := b.defs[name]; known {
		return ref
	}
	b.defs[name] = nil // in the making
	v := reflect.New(t).Elem()
	s := b.object(v)
	switch t {
	case reflect.TypeFor[Override]():
		s = object{"oneOf": []object{{"type": "boolean"}, switched(v, s)}}
	case reflect.TypeFor[Rule]():
		b.ruleSchema(s)
	default:
		s = switched(v, s)
	}
	b.defs[name] = s
	return ref
}

// switched returns the schema of a block that is not checked while it is disabled, as in Parse.
func switched(v reflect.Value, s object) object {
	fields := fieldsOf(v)
	if len(fields) == 0 || fields[0].name != "enabled" {
		return s
	}
	is := func(on bool) object {
		return object{"properties": object{"enabled": object{"const": on}}, "required": []string{"enabled"}}
	}
	if fields[0].value.Bool() {
		return object{"type": "object", "if": is(false), "else": s}
	}
	loose := object{"properties": object{"enabled": object{"type": "boolean"}}}
	return object{"type": "object", "if": is(true), "then": s, "else": loose}
}

// ruleSchema adds algorithm_config, whose schema depends on the algorithm.
func (b *schemaBuilder) ruleSchema(s object) {
	var cases []object
	for _, algorithm := range algorithmNames {
		config := new(Rule).configFor(algorithm).Type().Elem()
		cases = append(cases, object{
			"if":   object{"properties": object{"algorithm": object{"const": algorithm}}},
			"then": object{"properties": object{"algorithm_config": b.reference(config)}},
		})
	}
	s["allOf"] = cases
}

// schema adds what a constraint allows.
func (c constraint) schema(s object) object {
	for keyword, bound := range map[string]*float64{"minimum": c.min, "maximum": c.max, "exclusiveMinimum": c.above} {
		if bound != nil {
			s[keyword] = *bound
		}
	}
	if c.maxLen > 0 {
		s["maxLength"] = c.maxLen
	}
	if len(c.one) > 0 {
		s["enum"] = c.one
	}
	if len(c.sources) > 0 {
		s["pattern"] = "^(" + strings.Join(c.sources, "|") + "|(header|query):.+)$"
	}
	if s["type"] == "string" && (c.required || c.form == "nonempty") {
		s["minLength"] = 1
	}
	return c.schemaForm(s)
}

func (c constraint) schemaForm(s object) object {
	switch c.form {
	case "path":
		s["pattern"] = "^/"
	case "token":
		s["pattern"] = `^\S+$`
	case "descriptor":
		s["pattern"] = "^((jwt|header|query|ip|ua):.+|caller|tenant|session|project|model)$"
	case "regex":
		s["format"] = "regex"
	case "https":
		s["format"], s["pattern"] = "uri", "^https://"
	}
	return s
}
