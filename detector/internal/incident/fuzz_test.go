package incident

import (
	"testing"
	"time"

	"github.com/unloop/unloop/schemas/checkpb"
	"github.com/unloop/unloop/schemas/event"
)

// FuzzRecord takes whatever a bucket may hold for an incident: findings are added to
// it, and what it writes can be read again.
func FuzzRecord(f *testing.F) {
	at := time.UnixMilli(1_700_000_000_000)
	finding := Finding{Policy: "p", Conversation: "c", Detector: "exact", Action: checkpb.Action_ACTION_REJECT, Fingerprint: []byte("f"), Hits: 1, Count: 3, At: at}
	first := New(&finding, "l").Add(&finding)
	f.Add(first.Append(nil))
	f.Add([]byte(`{"first_seen":"9999-12-31T23:59:59Z","findings":null}`))
	f.Fuzz(func(t *testing.T, stored []byte) {
		var r Record
		if r.Parse(stored) != nil {
			return
		}
		next, _ := r.Apply("m", []Finding{finding, finding})
		if next.TTL() < 0 {
			t.Errorf("kept for %s", next.TTL())
		}
		_ = next.Event(event.Detected, at)
		_ = Overflowing(next.Record)
		var again Record
		if err := again.Parse(next.Append(nil)); err != nil {
			t.Errorf("%s: %v", next.Append(nil), err)
		}
	})
}
