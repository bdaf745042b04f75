package policy

import (
	"math"
	"reflect"
	"strings"

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
	d.fields(pairs, path, append(fields, field{name: "algorithm_config", value: r.configFor(algorithm)}))
}

// configFor makes room for the configuration of an algorithm. That of an
// unknown one can't be looked at.
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

// decodeInt takes integers, and floats that are whole: JSON does not tell
// them apart.
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

// field is one field of a block, under its name in bundles.
type field struct {
	name     string
	value    reflect.Value
	optional bool
	constraint
}

// fieldsOf lists a struct's fields that have a name in bundles.
func fieldsOf(v reflect.Value) []field {
	var fields []field
	t := v.Type()
	for i := range t.NumField() {
		name, options, _ := strings.Cut(t.Field(i).Tag.Get("json"), ",")
		if name == "" || name == "-" {
			continue
		}
		fields = append(fields, field{
			name:       name,
			value:      v.Field(i),
			optional:   options != "",
			constraint: parseConstraint(t.Field(i).Tag.Get("check")),
		})
	}
	return fields
}
