package evidence

import (
	"bytes"
	"testing"
	"time"

	"github.com/unloop/unloop/schemas/checkpb"
)

// clocked returns the counter of a prompt without its clocks, a minute after nine; nil for
// none.
func clocked(t *testing.T, spec, messages string) *checkpb.Counter {
	t.Helper()
	a := asked{caller: "k", body: `{"model":"m","messages":[` + messages + `]}`}
	a.set = func(in *Input) { in.Now = time.Date(2026, 3, 2, 9, 1, 0, 0, time.UTC) }
	e := Build(a.input(t, policies(t, spec)))
	counters := e.Check.GetCounters()
	if len(counters) < 2 {
		return nil
	}
	return counters[1]
}

func TestAPromptThatBeginsWithTheTimeIsCountedWithoutIt(t *testing.T) {
	t.Parallel()
	const spec = "{prompt: {max_hits: 4}}"
	at := func(text string) *checkpb.Counter { return clocked(t, spec, `{"role":"user","content":"`+text+`"}`) }
	first := at("Current time: 2026-03-02T09:00:00Z\\nPlan the next step.")
	if first == nil || first.GetSteps()[len(first.GetSteps())-1].GetAction() != checkpb.Action_ACTION_HINT || first.GetCooldownSeconds() != 0 {
		t.Fatalf("the counter is %v", first)
	}
	if later := at("Current time: 2026-03-02T09:00:05Z\\nPlan the next step."); !bytes.Equal(first.GetFingerprint(), later.GetFingerprint()) {
		t.Error("a second later it is another prompt")
	}
	if other := at("Current time: 2026-03-02T09:00:00Z\\nPlan the last step."); bytes.Equal(first.GetFingerprint(), other.GetFingerprint()) {
		t.Error("another prompt is the same")
	}
	if c := at("Plan the shift of 2026-03-02T14:20:00Z."); c != nil {
		t.Errorf("a prompt about another time has %v", c)
	}
	if c := at("Plan the next step of job 123e4567-e89b-12d3-a456-426614174000."); c != nil {
		t.Errorf("a prompt without a clock has %v", c)
	}
	if c := clocked(t, spec, `{"role":"user","content":"It is 09:00:00."},{"role":"assistant","content":"Yes."},{"role":"user","content":"Go on."}`); c != nil {
		t.Errorf("a conversation has %v", c)
	}
	if c := clocked(t, "{prompt: {count_each: true}}", `{"role":"user","content":"It is 09:00:00."}`); c != nil {
		t.Errorf("the source's rule has %v", c)
	}
}
