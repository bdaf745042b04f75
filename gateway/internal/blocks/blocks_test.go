package blocks

import (
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/unloop/unloop/schemas/checkpb"
)

func checkOf(id string) *checkpb.Check {
	return &checkpb.Check{RequestId: id, Counters: []*checkpb.Counter{{Policy: "p", Detector: "prompt", Fingerprint: []byte(id), WindowSeconds: 60, CooldownSeconds: 30}}}
}

// blockFinding is a finding whose reject stands for ten seconds.
func blockFinding(id string) *checkpb.Finding {
	return &checkpb.Finding{
		Policy: "p", Detector: "prompt", Fingerprint: []byte(id), Action: checkpb.Action_ACTION_REJECT,
		HitCount: 6, BlockedMs: 10_000, LoopId: "loop",
	}
}

func TestMemoryIsBounded(t *testing.T) {
	t.Parallel()
	now := time.Now()
	b := New()
	for i := range maxBlocks + 10 {
		b.Learn(now, blockFinding(fmt.Sprint(i)))
	}
	if b.Len() != maxBlocks {
		t.Errorf("%d blocks are remembered, at most %d may be", b.Len(), maxBlocks)
	}
	answered := 0
	for i := range maxReports + 10 {
		if b.Decision(now, checkOf(fmt.Sprint(i))) != nil {
			answered++
		}
	}
	if answered != maxReports {
		t.Errorf("%d hits wait to be reported, at most %d may; the others must be checked", answered, maxReports)
	}
}

// A forged or stale message about a block never makes it longer than the policy
// says, and is of no use where the policy knows no blocks.
func TestABlockIsNeverLongerThanItsPolicySays(t *testing.T) {
	t.Parallel()
	now := time.Now()
	b := New()
	forged := blockFinding("x")
	forged.BlockedMs = math.MaxUint32
	b.Learn(now, forged)
	check := checkOf("x") // its cooldown is 30 seconds, its window 60
	if d := b.Decision(now, check); d == nil || d.GetFindings()[0].GetBlockedMs() > 60_000 {
		t.Errorf("blocked by %v", d)
	}
	now = now.Add(61 * time.Second)
	if d := b.Decision(now, check); d != nil {
		t.Errorf("still blocked after its window: %v", d)
	}
	other := blockFinding("y")
	b.Learn(now, other)
	counter := checkOf("y")
	counter.Counters[0].WindowSeconds, counter.Counters[0].CooldownSeconds = 0, 0
	if d := b.Decision(now, counter); d != nil {
		t.Errorf("a counter without a window is blocked: %v", d)
	}
}
