package schemas_test

import (
	"testing"

	"github.com/unloop/unloop/schemas"
)

func TestToolsOfTheMCPServerAreKnownByTheNamesAgentsGiveThem(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]bool{
		"check_loop": true, "explain_loop": true, "mcp__unloop__check_loop": true, "Unloop.explain_loop": true,
		"health_check_loop": false, "check_loops": false, "unloop": false, "": false,
	} {
		if got := schemas.IsMCPTool(name); got != want {
			t.Errorf("%q: %v", name, got)
		}
	}
}
