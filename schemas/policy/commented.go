package policy

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Commented returns the bundle as YAML. Above each field stands what it means.
func (b *Bundle) Commented() ([]byte, error) {
	text, err := json.Marshal(b)
	if err != nil {
		return nil, fmt.Errorf("write bundle: %w", err)
	}
	var doc yaml.Node
	if err := yaml.Unmarshal(text, &doc); err != nil {
		return nil, fmt.Errorf("write bundle: %w", err)
	}
	comment(&doc, reflect.TypeOf(*b))
	var out bytes.Buffer
	enc := yaml.NewEncoder(&out)
	enc.SetIndent(2)
	if err := enc.Encode(&doc); err != nil {
		return nil, fmt.Errorf("write bundle: %w", err)
	}
	return out.Bytes(), nil
}

// comment writes the descriptions of a type's fields above those of a node, in block style.
func comment(n *yaml.Node, t reflect.Type) {
	n.Style = 0
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch {
	case n.Kind == yaml.DocumentNode:
		comment(n.Content[0], t)
	case n.Kind == yaml.SequenceNode && t.Kind() == reflect.Slice:
		for _, element := range n.Content {
			comment(element, t.Elem())
		}
	case n.Kind == yaml.MappingNode && t.Kind() == reflect.Struct:
		for i := 0; i+1 < len(n.Content); i += 2 {
			n.Content[i].Style = 0
			field, known := fieldOf(t, n.Content[i].Value)
			if known {
				n.Content[i].HeadComment = field.Tag.Get("doc")
				comment(n.Content[i+1], field.Type)
			}
		}
	}
}

// fieldOf returns the field of a struct that has a name in JSON.
func fieldOf(t reflect.Type, name string) (reflect.StructField, bool) {
	for _, field := range reflect.VisibleFields(t) {
		if own, _, _ := strings.Cut(field.Tag.Get("json"), ","); own == name {
			return field, true
		}
	}
	return reflect.StructField{}, false
}
