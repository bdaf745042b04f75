package detector_test

import (
	"crypto/sha256"
	"fmt"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/unloop/unloop/schemas"
	"github.com/unloop/unloop/schemas/checkpb"
	"github.com/unloop/unloop/schemas/kit/natskit"
	"github.com/unloop/unloop/schemas/kit/natstest"
)

// monthly is a check by a budget of three requests a month for a key.
func monthly(name string) *checkpb.Check {
	key := sha256.Sum256([]byte(name))
	return limited(func(l *checkpb.Limit) {
		l.Rule, l.Key, l.Bucket = "month", key[:], nil
		l.Budget = &checkpb.Budget{Amount: 3, PeriodSeconds: 30 * 24 * 3600, Stages: []*checkpb.Stage{{Percent: 100, Action: checkpb.Action_ACTION_REJECT}}}
	})
}

// Budgets that nobody uses and open circuit breakers outlive a flood of other keys, of
// buckets and of budgets, and count on even where their bucket has no byte left. What has no
// room is let through, counted in a metric, and stops no other part of its check.
func TestAFloodEvictsNoBudgetAndNoBreaker(t *testing.T) {
	t.Parallel()
	s := natstest.Start(t)
	d := startDetector(t, s)
	for _, bucket := range []string{schemas.BucketLimits, schemas.BucketBudgets} {
		stream, err := s.JetStream().Stream(t.Context(), natskit.BucketStream(bucket))
		if err != nil {
			t.Fatal(err)
		}
		small := stream.CachedInfo().Config
		small.MaxBytes = 256 << 10
		if _, err := s.JetStream().UpdateStream(t.Context(), small); err != nil {
			t.Fatal(err)
		}
	}
	nc := s.Conn()
	for range 2 {
		ruling(t, nc, monthly("idle"))
		ruling(t, nc, broken(2, 3600))
	}
	for n := range 12 {
		checks := make([]*checkpb.Check, 100)
		for i := range checks {
			name := fmt.Sprint(n, " ", i)
			checks[i] = monthly(name)
			checks[i].Hit, checks[i].Identity = fmt.Sprintf("%08x", 100*n+i), &checkpb.Identity{Caller: name}
			key := sha256.Sum256([]byte(name))
			checks[i].Limits = append(checks[i].GetLimits(), limited(func(l *checkpb.Limit) { l.Key = key[:] }).GetLimits()...)
			checks[i].Counters = promptCheck(name).GetCounters()
		}
		for i, got := range askUntilCounted(t, nc, checks) {
			if got.GetAction() != checkpb.Action_ACTION_ALLOW || got.GetHitCounts()[0] != 1 {
				t.Fatalf("request %d of the flood: %v", 100*n+i, got)
			}
		}
	}
	if d.counted(t, "unloop_detector_unbudgeted_total") == 0 {
		t.Error("no budget was refused")
	}
	fill(t, s)
	for range 4 { // it is not remembered
		if v := ruling(t, nc, monthly("new")); v.GetAction() != checkpb.Action_ACTION_ALLOW || v.GetRemaining() != 2 {
			t.Errorf("a new budget without room: %v", v)
		}
	}
	if v := ruling(t, nc, broken(2, 3600)); v.GetAction() != checkpb.Action_ACTION_REJECT {
		t.Errorf("the open breaker: %v", v)
	}
	if v := ruling(t, nc, monthly("idle")); v.GetAction() != checkpb.Action_ACTION_ALLOW || v.GetRemaining() != 0 {
		t.Errorf("the idle budget's third request: %v", v)
	}
	for range 2 {
		if v := ruling(t, nc, monthly("idle")); v.GetAction() != checkpb.Action_ACTION_REJECT {
			t.Errorf("the idle budget's fourth request: %v", v)
		}
	}
}

// A caller who makes up keys leaves room to the budgets of others.
func TestAFloodOfOneCallerLeavesRoom(t *testing.T) {
	t.Parallel()
	s := natstest.Start(t)
	d := startDetector(t, s)
	stream, err := s.JetStream().Stream(t.Context(), natskit.BucketStream(schemas.BucketBudgets))
	if err != nil {
		t.Fatal(err)
	}
	small := stream.CachedInfo().Config
	small.MaxBytes = 512 << 10
	if stream, err = s.JetStream().UpdateStream(t.Context(), small); err != nil {
		t.Fatal(err)
	}
	for n := range 20 {
		checks := make([]*checkpb.Check, 100)
		for i := range checks {
			checks[i] = monthly(fmt.Sprint(n, " ", i))
			checks[i].Hit, checks[i].Identity = fmt.Sprintf("%08x", 100*n+i), &checkpb.Identity{Caller: "one"}
		}
		askUntilCounted(t, s.Conn(), checks)
	}
	info, err := stream.Info(t.Context())
	if err != nil || natskit.Fullness(info) > 0.6 || d.counted(t, "unloop_detector_unbudgeted_total") == 0 {
		t.Fatalf("the bucket after the flood: %v of its room, %v", natskit.Fullness(info), err)
	}
	for _, left := range []float64{2, 1} {
		other := monthly("other")
		other.Identity = &checkpb.Identity{Caller: "another"}
		if v := ruling(t, s.Conn(), other); v.GetRemaining() != left {
			t.Errorf("another's budget: %v, want %v left", v, left)
		}
	}
}

// askUntilCounted asks again about the checks that were not counted in time.
func askUntilCounted(t *testing.T, nc *nats.Conn, checks []*checkpb.Check) []*checkpb.Decision {
	t.Helper()
	decisions := ask(t, nc, checks...)
	for i, d := range decisions {
		for d.GetError() != "" && t.Context().Err() == nil {
			d = ask(t, nc, checks[i])[0]
		}
		decisions[i] = d
	}
	return decisions
}

// fill takes the last bytes of the bucket of budgets, which a flood of new ones leaves to
// those that are there.
func fill(t *testing.T, s *natstest.Server) {
	t.Helper()
	stream, err := s.JetStream().Stream(t.Context(), natskit.BucketStream(schemas.BucketBudgets))
	if err != nil {
		t.Fatal(err)
	}
	info, err := stream.Info(t.Context())
	if err != nil || natskit.Fullness(info) < 0.5 || natskit.Fullness(info) > natskit.FullFrom+0.02 {
		t.Fatalf("the bucket after the flood: %v of its room, %v", natskit.Fullness(info), err)
	}
	for i, size := 0, 1024; size >= 0; i++ {
		if _, err := s.JetStream().Publish(t.Context(), fmt.Sprint("$KV.", schemas.BucketBudgets, ".filled.", i), make([]byte, size)); natskit.IsFull(err) {
			size = (size+1)/2 - 1
		} else if err != nil {
			t.Fatal(err)
		}
	}
}
