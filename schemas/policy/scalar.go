package policy

import (
	"math"
	"reflect"
	"strings"
	"sync"

	"go.yaml.in/yaml/v3"
)

// Strings is a list of strings. In a bundle a single string stands for a list
// of one.
type Strings []string

func (s *Strings) decodeNode(d *decoder, n *yaml.Node, path string) {
	if n.Kind == yaml.ScalarNode && n.Tag == "!!str" {
		*s = Strings{n.Value}
		return
	}
	if n.Kind != yaml.SequenceNode {
		d.fault(path, fieldName(path)+" must be a string or a list of strings")
		return
	}
	d.list(n, path, reflect.ValueOf((*[]string)(s)).Elem(), constraint{})
}

// Text is a string that a bundle may also write as a number or a boolean.
type Text string

func (t *Text) decodeNode(d *decoder, n *yaml.Node, path string) {
	if n.Kind != yaml.ScalarNode || n.Tag == "!!null" {
		d.fault(path, fieldName(path)+" must be a string, a number or a boolean")
		return
	}
	*t = Text(n.Value)
}

// Ignored is an object of any content that has no effect.
type Ignored struct{}

func (*Ignored) decodeNode(d *decoder, n *yaml.Node, path string) {
	if n.Kind != yaml.MappingNode {
		d.fault(path, fieldName(path)+" must be a mapping")
	}
}

func (o *Override) decodeNode(d *decoder, n *yaml.Node, path string) {
	type plain Override
	v := reflect.ValueOf((*plain)(o)).Elem()
	if n.Kind == yaml.ScalarNode {
		d.scalar(n, path, v.Field(0), constraint{})
		return
	}
	d.structure(n, path, v)
}

func (r *Rule) decodeNode(d *decoder, n *yaml.Node, path string) {
	pairs, ok := d.pairs(n, path)
	if !ok {
		return
	}
	algorithm := ""
	for _, p := range pairs {
		if p.name == "algorithm" {
			algorithm = resolve(p.value).Value
		}
	}
	type plain Rule
	fields := fieldsOf(reflect.ValueOf((*plain)(r)).Elem())
	d.fields(pairs, path, append(fields, field{&fieldType{name: "algorithm_config"}, r.configFor(algorithm)}))
}

// configFor returns the field for the configuration of an algorithm. That of an unknown
// algorithm is ignored.
func (r *Rule) configFor(algorithm string) reflect.Value {
	var target any
	switch algorithm {
	case AlgorithmTokenBucket:
		target = &r.TokenBucket
	case AlgorithmTokenBucketLLM:
		target = &r.TokenBucketLLM
	case AlgorithmCostBased:
		target = &r.CostBased
	default:
		target = new(Ignored)
	}
	return reflect.ValueOf(target).Elem()
}

// decodeInt accepts integers, and whole floats, from which JSON does not distinguish them.
func decodeInt(n *yaml.Node, v reflect.Value) bool {
	var i int64
	switch n.Tag {
	case "!!int":
		if n.Decode(&i) != nil {
			return false
		}
	case "!!float":
		var f float64
		if n.Decode(&f) != nil || f != math.Trunc(f) || math.Abs(f) > 1<<53 {
			return false
		}
		i = int64(f)
	default:
		return false
	}
	v.SetInt(i)
	return true
}

func decodeFloat(n *yaml.Node, v reflect.Value) bool {
	if n.Tag != "!!int" && n.Tag != "!!float" {
		return false
	}
	var f float64
	if n.Decode(&f) != nil || math.IsInf(f, 0) || math.IsNaN(f) {
		return false
	}
	v.SetFloat(f)
	return true
}

// fieldType is one field of a block, under its name in bundles.
type fieldType struct {
	name     string
	index    int
	optional bool
	// local is set for fields that gateways use themselves and detectors don't need.
	local bool
	doc   string
	constraint
}

// field is a fieldType with its place in a value.
type field struct {
	*fieldType
	value reflect.Value
}

// fieldTypes remembers the fields of each block's type.
var fieldTypes sync.Map // reflect.Type → []fieldType

func fieldTypesOf(t reflect.Type) []fieldType {
	if known, ok := fieldTypes.Load(t); ok {
		if types, ok := known.([]fieldType); ok {
			return types
		}
	}
	var types []fieldType
	for i := range t.NumField() {
		tag := t.Field(i).Tag
		name, options, _ := strings.Cut(tag.Get("json"), ",")
		if name == "" || name == "-" {
			continue
		}
		c := parseConstraint(tag.Get("check"))
		c.standard = tag.Get("default")
		types = append(types, fieldType{
			name: name, index: i, optional: options != "", local: tag.Get("use") == "gateway", doc: tag.Get("doc"), constraint: c,
		})
	}
	fieldTypes.Store(t, types)
	return types
}

// fieldsOf lists a struct's fields that have a name in bundles.
func fieldsOf(v reflect.Value) []field {
	types := fieldTypesOf(v.Type())
	fields := make([]field, len(types))
	for i := range types {
		fields[i] = field{&types[i], v.Field(types[i].index)}
	}
	return fields
}
