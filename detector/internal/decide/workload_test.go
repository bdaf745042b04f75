package decide_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/unloop/unloop/detector/internal/workload"
	"github.com/unloop/unloop/schemas/checkpb"
)

// opening is the check of a first request with a prompt, which is stopped at its third hit.
func opening(prompt string, begin int) *checkpb.Check {
	c := check("a")
	one := c.Counters[0]
	one.Fingerprint = slices.Concat(hash(prompt)[:16], make([]byte, 16)) // of no session and no model
	one.Parted, one.Steps[0].At = true, 3
	one.Opening = &checkpb.Opening{Begin: uint64(begin + 1), Messages: 1, First: true}
	return c
}

// A detector that takes over, or starts again, knows nothing of what a caller sent before.
func TestAWorkloadIsOneForTheDetectorThatTakesOver(t *testing.T) {
	t.Parallel()
	const others = 20
	for name, c := range map[string]struct {
		before int  // other prompts, for the detector before
		stays  bool // the same detector goes on
		want   checkpb.Action
	}{
		"among others":             {others, false, checkpb.Action_ACTION_WARN},
		"a loop":                   {0, false, reject},
		"a loop that was workload": {others, true, reject},
	} {
		f := newFixture()
		for i := range c.before {
			f.decide(t, opening(fmt.Sprint("other ", i), i))
		}
		f.decide(t, opening("workload", others))
		f.decide(t, opening("workload", others))
		if c.before > 0 { // the loop is stopped below, at its third hit
			f.decide(t, opening("another", 0))
			f.decide(t, opening("workload", others))
		}
		if c.stays {
			f.decide(t, opening("workload", others))
		} else {
			f.Workloads = workload.New()
			f.Now = func() time.Time { return now().Add(time.Second) }
		}
		if d := f.decide(t, opening("workload", others)); d.GetAction() != c.want {
			t.Errorf("%s: %v, want %v", name, d, c.want)
		}
	}
}
