package evidence

import (
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/unloop/unloop/gateway/internal/rules/bundle"
	"github.com/unloop/unloop/schemas/checkpb"
	"github.com/unloop/unloop/schemas/finding"
	"github.com/unloop/unloop/schemas/policy"
)

func TestPromptsOfPollsHaveTheirPatience(t *testing.T) {
	t.Parallel()
	item := func(calls ...*checkpb.ToolCall) *checkpb.HistoryItem { return &checkpb.HistoryItem{Calls: calls} }
	poll, wait, look := &checkpb.ToolCall{Poll: true}, &checkpb.ToolCall{Wait: true}, &checkpb.ToolCall{Tool: "look_out"}
	closed := &checkpb.HistoryItem{Human: []byte{1}, Closed: true}
	counter := func(hits, together uint32) *checkpb.Counter {
		return &checkpb.Counter{
			Policy: "p", Detector: finding.Prompt, Threshold: hits, Steps: []*checkpb.Step{{At: hits + 1}},
			Together: &checkpb.Together{Threshold: together, Steps: []*checkpb.Step{{At: together + 1}}},
		}
	}
	for name, c := range map[string]struct {
		items  []*checkpb.HistoryItem
		tool   *policy.Tool
		policy string
		want   *checkpb.Counter
	}{
		"a poll":                      {[]*checkpb.HistoryItem{item(poll)}, &policy.Tool{PollMultiplier: 3}, "p", counter(15, 30)},
		"a check behind a wait":       {[]*checkpb.HistoryItem{item(wait), item(look)}, &policy.Tool{PollMultiplier: 2}, "p", counter(10, 20)},
		"a tool that the policy says": {[]*checkpb.HistoryItem{item(look)}, &policy.Tool{PollMultiplier: 3, PollTools: []string{"look_*"}}, "p", counter(15, 30)},
		"another call":                {[]*checkpb.HistoryItem{item(poll), item(look)}, &policy.Tool{PollMultiplier: 3}, "p", counter(5, 10)},
		"a poll beside another call":  {[]*checkpb.HistoryItem{item(poll, look)}, &policy.Tool{PollMultiplier: 3}, "p", counter(5, 10)},
		"a message behind a poll":     {[]*checkpb.HistoryItem{item(poll), item()}, &policy.Tool{PollMultiplier: 3}, "p", counter(5, 10)},
		"a turn behind an answer":     {[]*checkpb.HistoryItem{item(look), closed, item(look)}, &policy.Tool{PollMultiplier: 3}, "p", counter(10, 20)},
		"a message behind an answer":  {[]*checkpb.HistoryItem{item(look), closed}, &policy.Tool{PollMultiplier: 3}, "p", counter(10, 20)},
		"an answer without a call":    {[]*checkpb.HistoryItem{closed, closed}, &policy.Tool{PollMultiplier: 3}, "p", counter(5, 10)},
		"a message behind no answer":  {[]*checkpb.HistoryItem{item(look), {Human: []byte{1}}, item(look)}, &policy.Tool{PollMultiplier: 3}, "p", counter(5, 10)},
		"another policy":              {[]*checkpb.HistoryItem{item(poll)}, &policy.Tool{PollMultiplier: 3}, "q", counter(5, 10)},
		"without tools":               {nil, &policy.Tool{PollMultiplier: 3}, "p", counter(5, 10)},
	} {
		got := counter(5, 10)
		expectPolls([]*checkpb.Counter{got}, []*checkpb.ToolWatch{{Policy: c.policy, History: &checkpb.History{Items: c.items}}},
			[]*bundle.Policy{{ID: "p", Tool: c.tool}, {ID: "q", Tool: c.tool}})
		if !proto.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
	each := counter(5, 10)
	expectPolls([]*checkpb.Counter{each}, []*checkpb.ToolWatch{{Policy: "p", History: &checkpb.History{Items: []*checkpb.HistoryItem{item(poll)}}}},
		[]*bundle.Policy{{ID: "p", Tool: &policy.Tool{PollMultiplier: 3}, Prompt: &policy.Prompt{CountEach: true}}})
	if !proto.Equal(each, counter(5, 10)) {
		t.Errorf("a policy that counts each prompt: %v", each)
	}
	high := counter(highestStep-1, 2*highestStep)
	if raiseThresholds(high, 3); !proto.Equal(high, counter(highestStep-1, 2*highestStep)) {
		t.Errorf("counts that no detector takes: %v", high)
	}
}
