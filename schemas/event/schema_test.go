package event

import (
	"encoding/json"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"
)

// property is a part of the JSON Schema.
type property struct {
	Type       string              `json:"type"`
	Properties map[string]property `json:"properties"`
	Items      *property           `json:"items"`
}

// The schema is written by hand: it describes the fields that events have, all of them and
// no other.
func TestTheSchemaHasTheFieldsOfAnEvent(t *testing.T) {
	t.Parallel()
	var schema property
	if err := json.Unmarshal(Schema, &schema); err != nil {
		t.Fatal(err)
	}
	same(t, "event", reflect.TypeFor[Event](), schema)
}

// same compares a type with its part of the schema.
func same(t *testing.T, at string, of reflect.Type, p property) {
	t.Helper()
	switch {
	case of.Kind() == reflect.Pointer:
		same(t, at, of.Elem(), p)
	case of.Kind() == reflect.Slice && p.Items != nil:
		same(t, at+"[]", of.Elem(), *p.Items)
	case of.Kind() == reflect.Struct && p.Properties != nil:
		var names []string
		for f := range of.Fields() {
			name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
			names = append(names, name)
			same(t, at+"."+name, f.Type, p.Properties[name])
		}
		slices.Sort(names)
		if described := slices.Sorted(maps.Keys(p.Properties)); !slices.Equal(names, described) {
			t.Errorf("%s has the fields %v, and the schema describes %v", at, names, described)
		}
	}
}
