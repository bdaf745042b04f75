package policy

import (
	"fmt"
	"maps"
	"net/netip"
	"reflect"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"
)

// maxNodes bounds how many values a bundle may have, aliases expanded. A
// thousand policies have about 60 000.
const maxNodes = 300_000

// decoder decodes a tree into the bundle's types and records the line of each field. It never
// stops at a fault.
type decoder struct {
	*report
	strict bool
	// noun is what messages call the document.
	noun  string
	nodes int
}

var durationType = reflect.TypeFor[time.Duration]()

// nodeDecoder is a type that decodes itself.
type nodeDecoder interface {
	decodeNode(d *decoder, n *yaml.Node, path string)
}

// decode reports whether the document could be read at all, so that checking it
// makes sense.
func (d *decoder) decode(root *yaml.Node, into reflect.Value) bool {
	d.lines[""] = root.Line
	if root.Kind != yaml.MappingNode {
		d.fault("", "the "+d.noun+" must be a mapping")
		return false
	}
	d.value(root, "", into, constraint{})
	return d.nodes <= maxNodes
}

func (d *decoder) value(n *yaml.Node, path string, v reflect.Value, c constraint) {
	n = resolve(n)
	if d.full(n) {
		return
	}
	if custom, ok := reflect.TypeAssert[nodeDecoder](v.Addr()); ok {
		custom.decodeNode(d, n, path)
		return
	}
	if v.Type() == durationType {
		d.text(n, path, v, "must be a duration such as 30s or 5m", func(s string) (any, error) { return time.ParseDuration(s) })
		return
	}
	switch v.Kind() {
	case reflect.Pointer:
		target := reflect.New(v.Type().Elem())
		v.Set(target)
		d.value(n, path, target.Elem(), c)
	case reflect.Struct:
		d.structure(n, path, v)
	case reflect.Map:
		d.mapping(n, path, v)
	case reflect.Slice:
		d.list(n, path, v, c)
	default:
		d.scalar(n, path, v, c)
	}
}

// full counts a value, and reports whether there are too many.
func (d *decoder) full(n *yaml.Node) bool {
	d.nodes++
	if d.nodes > maxNodes {
		d.faultAt(n.Line, "", fmt.Sprintf("the %s has more than %d values once its aliases are expanded", d.noun, maxNodes))
	}
	return d.nodes > maxNodes
}

// resolve follows an alias to its target.
func resolve(n *yaml.Node) *yaml.Node {
	if n.Kind == yaml.AliasNode {
		return n.Alias
	}
	return n
}

func (d *decoder) structure(n *yaml.Node, path string, v reflect.Value) {
	switch v.Addr().Interface().(type) {
	case *time.Time:
		d.text(n, path, v, "must be a time such as 2026-01-31T15:04:05Z", func(s string) (any, error) {
			return time.Parse(time.RFC3339, s)
		})
		return
	case *netip.Prefix:
		d.text(n, path, v, "must be a network such as 10.0.0.0/8", func(s string) (any, error) {
			return netip.ParsePrefix(s)
		})
		return
	}
	setDefaults(v)
	pairs, ok := d.pairs(n, path)
	if !ok {
		return
	}
	fields := fieldsOf(v)
	if off(fields, pairs) {
		fields[0].value.SetBool(false)
		return
	}
	d.fields(pairs, path, fields)
}

// off reports whether a block is switched off, in which case nothing else in
// it is looked at.
func off(fields []field, pairs []pair) bool {
	if len(fields) == 0 || fields[0].name != "enabled" {
		return false
	}
	for _, p := range pairs {
		if p.name == "enabled" {
			n := resolve(p.value)
			return n.Tag == "!!bool" && strings.EqualFold(n.Value, "false")
		}
	}
	return !fields[0].value.Bool()
}

// text decodes a scalar with a textual form.
func (d *decoder) text(n *yaml.Node, path string, v reflect.Value, want string, parse func(string) (any, error)) {
	if n.Kind == yaml.ScalarNode && (n.Tag == "!!str" || n.Tag == "!!timestamp") {
		if parsed, err := parse(n.Value); err == nil {
			v.Set(reflect.ValueOf(parsed))
			return
		}
	}
	d.fault(path, fieldName(path)+" "+want)
}

// pair is one key of a mapping.
type pair struct {
	name   string
	line   int
	value  *yaml.Node
	merged bool
}

// pairs lists the keys of a mapping, merged ones included, and reports those
// that appear twice.
func (d *decoder) pairs(n *yaml.Node, path string) ([]pair, bool) {
	if n.Kind != yaml.MappingNode {
		d.fault(path, strings.TrimSpace(fieldName(path)+" must be a mapping"))
		return nil, false
	}
	var pairs []pair
	seen := map[string]int{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		switch {
		case key.Tag == "!!merge":
			pairs = append(pairs, d.merge(value, path)...)
		case key.Kind != yaml.ScalarNode:
			d.faultAt(key.Line, path, "keys must be plain names")
		case seen[key.Value] != 0:
			d.faultAt(key.Line, join(path, key.Value),
				fmt.Sprintf("key %q appears twice, first on line %d", key.Value, seen[key.Value]))
		default:
			seen[key.Value] = max(key.Line, 1)
			pairs = append(pairs, pair{name: key.Value, line: key.Line, value: value})
		}
	}
	return slices.DeleteFunc(pairs, func(p pair) bool { return p.merged && seen[p.name] != 0 }), true
}

// merge lists the keys that a YAML merge key (<<) brings in. A mapping's own
// keys, and those of an earlier merge, win over them.
func (d *decoder) merge(n *yaml.Node, path string) []pair {
	sources := []*yaml.Node{n}
	if resolve(n).Kind == yaml.SequenceNode {
		sources = resolve(n).Content
	}
	var pairs []pair
	seen := map[string]bool{}
	for _, source := range sources {
		source = resolve(source)
		if source.Kind != yaml.MappingNode {
			d.faultAt(n.Line, path, "<< must name a mapping")
			continue
		}
		for i := 0; i+1 < len(source.Content); i += 2 {
			key := source.Content[i]
			if d.full(key) {
				return pairs
			}
			if key.Tag == "!!merge" {
				d.faultAt(n.Line, path, "a merged mapping must not merge another one")
			} else if !seen[key.Value] {
				seen[key.Value] = true
				pairs = append(pairs, pair{name: key.Value, line: key.Line, value: source.Content[i+1], merged: true})
			}
		}
	}
	return pairs
}

// fields decodes the values of a mapping into fields.
func (d *decoder) fields(pairs []pair, path string, fields []field) {
	for _, p := range pairs {
		i := slices.IndexFunc(fields, func(f field) bool { return f.name == p.name })
		if i < 0 {
			d.unknown(p, path, fields)
			continue
		}
		at := join(path, p.name)
		d.lines[at] = p.line
		d.value(p.value, at, fields[i].value, fields[i].constraint)
	}
}

func (d *decoder) unknown(p pair, path string, fields []field) {
	message := fmt.Sprintf("unknown key %q", p.name)
	if !d.strict {
		d.lines[join(path, p.name)] = p.line
		d.warn(join(path, p.name), message+" is ignored")
		return
	}
	names := make([]string, len(fields))
	for i, f := range fields {
		names[i] = f.name
	}
	if near := nearest(p.name, names); near != "" {
		message += fmt.Sprintf("; did you mean %q?", near)
	}
	d.faultAt(p.line, join(path, p.name), message)
}

func (d *decoder) mapping(n *yaml.Node, path string, v reflect.Value) {
	pairs, ok := d.pairs(n, path)
	if !ok {
		return
	}
	v.Set(reflect.MakeMapWithSize(v.Type(), len(pairs)))
	for _, p := range pairs {
		at := join(path, p.name)
		d.lines[at] = p.line
		element := reflect.New(v.Type().Elem()).Elem()
		d.value(p.value, at, element, constraint{})
		v.SetMapIndex(reflect.ValueOf(p.name), element)
	}
}

func (d *decoder) list(n *yaml.Node, path string, v reflect.Value, c constraint) {
	if n.Kind != yaml.SequenceNode {
		d.fault(path, fieldName(path)+" must be a list")
		return
	}
	// Room is made only for what will be counted.
	if d.nodes+len(n.Content) > maxNodes {
		d.nodes = maxNodes
		d.full(n)
		return
	}
	v.Set(reflect.MakeSlice(v.Type(), len(n.Content), len(n.Content)))
	for i, element := range n.Content {
		at := fmt.Sprintf("%s[%d]", path, i)
		d.lines[at] = element.Line
		d.value(element, at, v.Index(i), c)
	}
}

// scalar puts a boolean, number or string in place.
func (d *decoder) scalar(n *yaml.Node, path string, v reflect.Value, c constraint) {
	ok := n.Kind == yaml.ScalarNode
	if ok {
		switch v.Kind() {
		case reflect.Bool:
			ok = n.Tag == "!!bool" && n.Decode(v.Addr().Interface()) == nil
		case reflect.Int, reflect.Int64:
			ok = decodeInt(n, v)
		case reflect.Float64:
			ok = decodeFloat(n, v)
		default:
			ok = n.Tag == "!!str"
			v.SetString(n.Value)
		}
	}
	if !ok {
		d.fault(path, fieldName(path)+" "+c.want(v.Kind(), n))
	}
}

// sortedKeys is a map's keys in a fixed order, so that faults are.
func sortedKeys[V any](m map[string]V) []string {
	return slices.Sorted(maps.Keys(m))
}
