package standing

import (
	"testing"
	"time"

	"github.com/unloop/unloop/schemas/checkpb"
)

// A block answers as long as it is known what else stops the request. What a conversation
// shows does not change, and rules and other counters go on.
func TestADetectorIsAskedWhatElseStopsABlockedRequest(t *testing.T) {
	t.Parallel()
	watch := &checkpb.ToolWatch{Policy: "p"}
	other := &checkpb.Counter{Policy: "q", Detector: "request", Fingerprint: []byte("y"), Steps: []*checkpb.Step{{At: 4, Action: checkpb.Action_ACTION_REJECT}}}
	warns := &checkpb.Counter{Policy: "q", Detector: "users", Fingerprint: []byte("y"), Steps: []*checkpb.Step{{At: 4, Action: checkpb.Action_ACTION_WARN}}}
	for name, c := range map[string]struct {
		change func(*checkpb.Check)
		// heard, answered and later say whether a block answers if a detector never reported
		// anything else, just did, or did a while ago.
		heard, answered, later bool
	}{
		"nothing else":              {func(*checkpb.Check) {}, true, true, true},
		"a conversation":            {func(c *checkpb.Check) { c.Watches = append(c.Watches, watch) }, false, true, true},
		"a rule":                    {func(c *checkpb.Check) { c.Limits = append(c.Limits, &checkpb.Limit{}) }, false, true, false},
		"a counter":                 {func(c *checkpb.Check) { c.Counters = append(c.Counters, other) }, false, true, false},
		"a counter that only warns": {func(c *checkpb.Check) { c.Counters = append(c.Counters, warns) }, true, true, true},
		"all in shadow": {func(c *checkpb.Check) {
			c.Watches, c.Limits = append(c.Watches, &checkpb.ToolWatch{Shadow: true}), append(c.Limits, &checkpb.Limit{Shadow: true})
		}, true, true, true},
	} {
		now, check := time.Now(), checkOf("x")
		c.change(check)
		heard, answered := New(), New()
		heard.Learn(now, blockFinding("x"))
		answered.Confirm(now, nil, &checkpb.Decision{Findings: []*checkpb.Finding{blockFinding("x")}, RetryAfterMs: 25_000, Lasting: true})
		answered.Learn(now, blockFinding("x")) // the broadcast of the same block says no more
		for when, got := range map[string][2]bool{
			"heard of": {heard.Decision(now, check) != nil, c.heard},
			"answered": {answered.Decision(now, check) != nil, c.answered},
			"later":    {answered.Decision(now.Add(2*restFor), check) != nil, c.later},
		} {
			if got[0] != got[1] {
				t.Errorf("%s, %s: a block answers: %v", name, when, got[0])
			}
		}
		counts := len(check.GetLimits())+len(check.GetCounters()) > 1 && c.answered && !c.later
		d := answered.Decision(now, check)
		if counts && d.GetRetryAfterMs() != 25_000 || !counts && d.GetRetryAfterMs() != 10_000 || d.GetLasting() != !c.heard {
			t.Errorf("%s: passes after %d ms, lasting %v", name, d.GetRetryAfterMs(), d.GetLasting())
		}
	}
}

// Without a detector a block answers nevertheless, and none is asked for a while.
func TestABlockAnswersWhereNoDetectorDoes(t *testing.T) {
	t.Parallel()
	now, check, s := time.Now(), checkOf("x"), New()
	check.Watches = append(check.Watches, &checkpb.ToolWatch{})
	s.Learn(now, blockFinding("x"))
	if s.Decision(now, check) != nil || !s.Doubted(now, check).GetAction().Stops() {
		t.Error("the block does not stand")
	}
	if s.Decision(now, check) == nil || s.Decision(now.Add(restFor), check) != nil {
		t.Error("a detector is asked too early or too late")
	}
	if s.Doubted(now, checkOf("y")) != nil {
		t.Error("another request is blocked")
	}
}
