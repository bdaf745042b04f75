package policy

import (
	"reflect"
	"strings"
	"testing"
)

func TestMadeUp(t *testing.T) {
	bundle := func(value string) (*Bundle, error) {
		return Parse([]byte("bundle_version: 1\npolicies:\n  - id: p\n    spec:\n      tool: {made_up: " + value + "}\n"))
	}
	if _, err := bundle("12"); err == nil || !strings.Contains(err.Error(), "made_up") {
		t.Errorf("too much: %v", err)
	}
	b, err := bundle("7")
	if err != nil || b.Policies[0].Spec.Tool.MadeUp != 7 {
		t.Fatalf("%+v, %v", b, err)
	}
	schema, err := GenerateSchema(reflect.TypeFor[Bundle](), "id", "title")
	if err != nil || !strings.Contains(string(schema), "A made-up number.") {
		t.Errorf("it is not described: %v", err)
	}
}
