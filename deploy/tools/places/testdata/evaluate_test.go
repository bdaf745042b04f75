package evaluate

import (
	"strings"
	"testing"
	"time"

	"github.com/unloop/unloop/detector/internal/toolloop"
	"github.com/unloop/unloop/schemas/checkpb"
)

// A session in which a call is made four times brings the made-up finding, as the policy
// has it, in the words of the catalogue.
func TestMadeUp(t *testing.T) {
	call := &checkpb.HistoryItem{Calls: []*checkpb.ToolCall{{Tool: "read", Call: make([]byte, 16), Result: make([]byte, 16)}}}
	check := &checkpb.Check{RequestId: "r", Identity: &checkpb.Identity{Caller: "c", Session: "abcd"}}
	w := &checkpb.ToolWatch{
		Policy: "p", Agent: make([]byte, 32), Tool: []byte(`{"made_up":2}`), History: &checkpb.History{Items: []*checkpb.HistoryItem{call, call}},
	}
	check.Watches = []*checkpb.ToolWatch{w}
	watch, err := NewWatch(check, w)
	if err != nil {
		t.Fatal(err)
	}
	watch.Step(toolloop.State{}, time.Now())
	for _, f := range watch.Result().Findings {
		if f.GetRule() == "made-up" && strings.Contains(f.GetMessage(), "The tool read made something up 2 times.") {
			return
		}
	}
	t.Errorf("found %+v", watch.Result())
}
