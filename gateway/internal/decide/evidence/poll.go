package evidence

import (
	"slices"

	"github.com/unloop/unloop/gateway/internal/rules/bundle"
	"github.com/unloop/unloop/schemas/checkpb"
	"github.com/unloop/unloop/schemas/finding"
	"github.com/unloop/unloop/schemas/glob"
	"github.com/unloop/unloop/schemas/policy"
)

// expectPolls raises the thresholds of a policy's prompt counter by the multiplier for polls
// if the newest round of the history only polls: an agent that waits for a slow server sends
// the same prompt until that is up.
func expectPolls(counters []*checkpb.Counter, watches []*checkpb.ToolWatch, policies []*bundle.Policy) {
	for _, w := range watches {
		i := slices.IndexFunc(policies, func(p *bundle.Policy) bool { return p.ID == w.GetPolicy() && p.Tool != nil })
		if i < 0 || policies[i].Prompt != nil && policies[i].Prompt.CountEach {
			continue
		}
		var times uint32
		switch {
		case policies[i].Tool.PollMultiplier > 1 && endsInPoll(w, policies[i].Tool):
			times = uint32(policies[i].Tool.PollMultiplier)
		case answers(w):
			times = turnMultiplier
		default:
			continue
		}
		for _, c := range counters {
			if c.GetPolicy() == w.GetPolicy() && c.GetDetector() == finding.Prompt {
				raiseThresholds(c, times)
			}
		}
	}
}

// turnMultiplier raises the thresholds of prompts after a turn that ended with an answer:
// people ask for the next track again and again.
const turnMultiplier = 2

// answers reports whether the newest user message of a history follows an answer to a turn
// with calls.
func answers(w *checkpb.ToolWatch) bool {
	calls, human := false, false
	for _, it := range slices.Backward(w.GetHistory().GetItems()) {
		switch {
		case len(it.GetHuman()) == 0:
			calls = calls || human
		case human || !it.GetClosed():
			return calls
		default:
			human = true
		}
	}
	return calls
}

// raiseThresholds multiplies the thresholds of a counter, unless detectors would not accept
// them.
func raiseThresholds(c *checkpb.Counter, times uint32) {
	if steps := c.GetSteps(); len(steps) == 0 || times*steps[len(steps)-1].GetAt() > highestStep {
		return
	}
	c.Threshold *= times
	raise(c.GetSteps(), times)
	if c.Together != nil {
		c.Together.Threshold *= times
		raise(c.Together.GetSteps(), times)
	}
}

// raise multiplies the numbers of hits before the steps.
func raise(steps []*checkpb.Step, times uint32) {
	for _, step := range steps {
		step.At = (step.GetAt()-1)*times + 1
	}
}

// endsInPoll reports whether the newest round polls, or follows a wait.
func endsInPoll(w *checkpb.ToolWatch, tool *policy.Tool) bool {
	items := w.GetHistory().GetItems()
	n := len(items)
	if n == 0 || len(items[n-1].GetCalls()) == 0 {
		return false
	}
	polls := func(c *checkpb.ToolCall) bool {
		return c.GetPoll() || c.GetWait() || glob.MatchAny(tool.PollTools, c.GetTool())
	}
	return all(items[n-1].GetCalls(), polls) || n > 1 && len(items[n-2].GetCalls()) > 0 && all(items[n-2].GetCalls(), (*checkpb.ToolCall).GetWait)
}

func all(calls []*checkpb.ToolCall, is func(*checkpb.ToolCall) bool) bool {
	return !slices.ContainsFunc(calls, func(c *checkpb.ToolCall) bool { return !is(c) })
}
