package detector_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/unloop/unloop/schemas"
	"github.com/unloop/unloop/schemas/checkpb"
	"github.com/unloop/unloop/schemas/kit/natstest"
)

// flood hits new counters until the record of another one is gone.
func flood(t *testing.T, s *natstest.Server, key string) {
	t.Helper()
	kv, err := s.JetStream().KeyValue(t.Context(), schemas.BucketCounters)
	if err != nil {
		t.Fatal(err)
	}
	nc := s.Conn()
	for n := 0; ; n += 200 {
		checks := make([]*checkpb.Check, 200)
		for i := range checks {
			checks[i] = promptCheck(fmt.Sprint("flood ", n+i))
		}
		ask(t, nc, checks...)
		if _, err := kv.Get(t.Context(), key); errors.Is(err, jetstream.ErrKeyNotFound) {
			return
		} else if n > 100_000 {
			t.Fatalf("the record is still there: %v", err)
		}
	}
}

// A block stands though a flood of new counters has evicted its record, in the
// detector that found it, in others and in those that start later; until it is
// released.
func TestAFloodEvictsNoBlock(t *testing.T) {
	t.Parallel()
	for name, parted := range map[string]bool{"one count": false, "parts": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := natstest.Start(t)
			first := startDetector(t, s)
			stream, err := s.JetStream().Stream(t.Context(), "KV_"+schemas.BucketCounters)
			if err != nil {
				t.Fatal(err)
			}
			small := stream.CachedInfo().Config
			small.MaxBytes = 64 << 10
			if _, err := s.JetStream().UpdateStream(t.Context(), small); err != nil {
				t.Fatal(err)
			}
			nc, check := s.Conn(), steady("again")
			check.Counters[0].Parted = parted
			for range 6 {
				ask(t, nc, check)
			}
			key := schemas.CounterKey(false, "prompt", "default", check.Counters[0].Fingerprint)
			for _, when := range []string{"in the same detector", "in one that started later"} {
				flood(t, s, key)
				if when != "in the same detector" {
					first.stop()
					startDetector(t, s)
				}
				d := ask(t, nc, check)[0]
				if d.GetAction() != checkpb.Action_ACTION_REJECT || d.GetFindings()[0].GetBlockedMs() == 0 {
					t.Fatalf("%s: %v, want a reject that stands", when, d)
				}
			}
		})
	}
}
