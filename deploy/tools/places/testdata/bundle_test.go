package bundle

import (
	"testing"

	"github.com/unloop/unloop/schemas/policy"
)

func TestMadeUp(t *testing.T) {
	b, err := policy.Parse([]byte("bundle_version: 1\npolicies:\n  - id: p\n    spec:\n      tool: {made_up: 7}\n"))
	if err != nil {
		t.Fatal(err)
	}
	s, err := Compile(b)
	if err != nil || string(s.policies[0].ToolWire) != `{"made_up":7}` {
		t.Errorf("checks have %s, %v", s.policies[0].ToolWire, err)
	}
}
