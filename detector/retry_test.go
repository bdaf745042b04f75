package detector_test

import (
	"crypto/sha256"
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/unloop/unloop/detector"
	"github.com/unloop/unloop/schemas/checkpb"
)

// drawCounter draws a counter with any window and some steps that stop.
func drawCounter(t *rapid.T, name string) *checkpb.Counter {
	fp := sha256.Sum256([]byte(name))
	window := rapid.Uint32Range(1, 40).Draw(t, "window")
	return &checkpb.Counter{
		Policy: name, Detector: rapid.SampledFrom([]string{"prompt", "request"}).Draw(t, "detector"), Fingerprint: fp[:],
		Window:        rapid.SampledFrom([]checkpb.Window{checkpb.Window_WINDOW_REFRESH, checkpb.Window_WINDOW_SLIDING, checkpb.Window_WINDOW_FIXED}).Draw(t, "kind"),
		WindowSeconds: window, Threshold: 1, CooldownSeconds: rapid.Uint32Range(0, 30).Draw(t, "cooldown"),
		Steps: []*checkpb.Step{{At: rapid.Uint32Range(2, 6).Draw(t, "stops at"), Action: checkpb.Action_ACTION_REJECT}},
	}
}

// drawLimit draws a rule that lets a few requests through.
func drawLimit(t *rapid.T, name string) *checkpb.Limit {
	return &checkpb.Limit{
		Policy: name, Rule: "r", Key: []byte(name), Cost: 1,
		Bucket: &checkpb.Bucket{Rate: rapid.SampledFrom([]float64{0.1, 0.5, 1}).Draw(t, "rate"), Capacity: rapid.Float64Range(1, 3).Draw(t, "capacity")},
	}
}

// Whatever stops a request, it passes after the time that the decision names, and neither
// a second earlier nor at once.
func TestADecisionSaysWhenItsRequestPasses(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		var at clock
		d := detector.NewEvaluator(at.now, nil)
		check := &checkpb.Check{Identity: &checkpb.Identity{Caller: "c0ffee", Session: "5e55"}}
		for i := range rapid.IntRange(1, 3).Draw(t, "counters") {
			check.Counters = append(check.Counters, drawCounter(t, fmt.Sprint("p", i)))
		}
		for i := range rapid.IntRange(0, 2).Draw(t, "rules") {
			check.Limits = append(check.Limits, drawLimit(t, fmt.Sprint("p", i)))
		}
		ask := func(peek bool) *checkpb.Decision {
			check.Peek = peek
			return d.Decide(t.Context(), check)
		}
		var last *checkpb.Decision
		for range rapid.IntRange(1, 12).Draw(t, "requests") {
			at.advance(time.Duration(rapid.IntRange(0, 9000).Draw(t, "pause")) * time.Millisecond)
			last = ask(false)
		}
		if !last.GetAction().Stops() {
			return
		}
		wait := time.Duration(last.GetRetryAfterMs()) * time.Millisecond
		if wait <= 0 || last.GetLasting() {
			t.Fatalf("stopped for good: %v", last)
		}
		if wait > time.Second {
			at.advance(wait - time.Second)
			if early := ask(true); early.GetRetryAfterMs() == 0 {
				t.Fatalf("a second before: %v, after %v", early, last)
			}
			wait = time.Second
		}
		at.advance(wait)
		if got := ask(false); got.GetAction().Stops() {
			t.Fatalf("after its time: %v, after %v", got, last)
		}
	})
}
