package incident

import (
	"testing"
	"time"

	"github.com/unloop/unloop/schemas/checkpb"
)

// found is a finding in a conversation that keeps its incident open for so long.
func found(conversation, detector string, window time.Duration) Finding {
	return Finding{
		Conversation: conversation, Policy: "default", Detector: detector, Action: checkpb.Action_ACTION_REJECT, Fingerprint: []byte(detector),
		Hits: 1, Count: 6, Threshold: 5, WindowSeconds: int(window / time.Second), At: time.Now(),
	}
}

func TestAnUpdateIsAppliedOnce(t *testing.T) {
	t.Parallel()
	rec := New(&Finding{}, "loop")
	f := found("aa", "prompt", time.Minute)
	for range 3 {
		rec, _ = rec.Apply("mark", []Finding{f})
	}
	if rec, _ = rec.Apply("another", []Finding{f}); rec.Saved.Requests != 2 {
		t.Errorf("%d requests, want 2", rec.Saved.Requests)
	}
}

// A detector whose clock is half a year ahead neither ends an incident nor keeps
// it for half a year.
func TestClocksThatDisagreeKeepAnIncident(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 5, 22, 0, 0, 0, 0, time.UTC)
	f := found("aa", "prompt", time.Minute)
	rec := New(&f, "loop")
	for i, skew := range []time.Duration{0, 180 * 24 * time.Hour, 0, -time.Hour, 65 * time.Second, 0} {
		f.At = now.Add(skew + time.Duration(i)*time.Second)
		rec = rec.Add(&f)
		if left := rec.Left(); left < time.Minute || left > 2*time.Minute+time.Hour {
			t.Errorf("clock %s off: %s left", skew, left)
		}
		if ttl := rec.TTL(); ttl > 2*time.Hour {
			t.Errorf("clock %s off: kept for %s", skew, ttl)
		}
	}
}
