package detector_test

import (
	"crypto/sha256"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"google.golang.org/protobuf/proto"

	"github.com/unloop/unloop/detector"
	"github.com/unloop/unloop/schemas"
	"github.com/unloop/unloop/schemas/checkpb"
	"github.com/unloop/unloop/schemas/kit/natstest"
)

// limited is the check of a request that a rule alone looks at.
func limited(edit func(*checkpb.Limit)) *checkpb.Check {
	key := sha256.Sum256([]byte("acme"))
	l := &checkpb.Limit{Policy: "p", Rule: "few", Key: key[:], Cost: 1, Bucket: &checkpb.Bucket{Rate: 1, Capacity: 50}}
	if edit != nil {
		edit(l)
	}
	return &checkpb.Check{Limits: []*checkpb.Limit{l}}
}

// ruling asks a detector about one check and returns what the rule says.
func ruling(t testing.TB, nc *nats.Conn, check *checkpb.Check) *checkpb.LimitVerdict {
	t.Helper()
	body, err := proto.Marshal(&checkpb.CheckBatch{BudgetMs: uint32(patience.Milliseconds()), Checks: []*checkpb.Check{check}})
	if err != nil {
		t.Fatal(err)
	}
	reply, err := nc.Request(schemas.SubjectCheck, body, patience)
	if err != nil {
		t.Error(err)
		return nil
	}
	var out checkpb.DecisionBatch
	err = proto.Unmarshal(reply.Data, &out)
	if err == nil && out.GetDecisions()[0].GetError() == checkpb.ErrorStalled {
		return ruling(t, nc, check) // a machine under load looks like a stall
	}
	if err != nil || out.GetDecisions()[0].GetError() != "" {
		t.Errorf("%v %s", err, out.GetDecisions()[0].GetError())
		return nil
	}
	return out.GetDecisions()[0].GetLimits()[0]
}

func TestThreeDetectorsLetExactlyTheBurstThrough(t *testing.T) {
	t.Parallel()
	s, c := natstest.Start(t), new(clock)
	var asking sync.WaitGroup
	var mu sync.Mutex
	passed := 0
	for range 3 {
		startDetector(t, s, detector.WithClock(c.now))
	}
	for range 200 {
		nc := s.Conn()
		asking.Go(func() {
			v := ruling(t, nc, limited(nil))
			mu.Lock()
			defer mu.Unlock()
			if v.GetTaken() && v.GetAction() == checkpb.Action_ACTION_ALLOW {
				passed++
			}
		})
	}
	asking.Wait()
	if passed != 50 {
		t.Errorf("%d passed, want 50", passed)
	}
	nc := s.Conn()
	if v := ruling(t, nc, limited(nil)); v.GetAction() != checkpb.Action_ACTION_REJECT || v.GetRetryAfterMs() != 1000 {
		t.Errorf("verdict %v", v)
	}
	if v := ruling(t, nc, limited(func(l *checkpb.Limit) { l.Shadow = true })); v.GetRemaining() != 49 {
		t.Errorf("a shadow rule has no state of its own: %v", v)
	}
	c.advance(time.Second)
	if v := ruling(t, nc, limited(nil)); v.GetAction() != checkpb.Action_ACTION_ALLOW {
		t.Errorf("a second later: %v", v)
	}
}

func TestEstimatesAreCorrectedWhateverDetectorTakesTheNews(t *testing.T) {
	t.Parallel()
	s, c := natstest.Start(t), new(clock)
	for range 2 {
		startDetector(t, s, detector.WithClock(c.now))
	}
	nc := s.Conn()
	estimated := func(cost float64) *checkpb.Check {
		return limited(func(l *checkpb.Limit) { l.Cost, l.Estimated = cost, true })
	}
	first := estimated(50)
	if v := ruling(t, nc, first); !v.GetTaken() || v.GetRemaining() != 0 {
		t.Fatalf("reserved: %v", v)
	}
	body, err := proto.Marshal(&checkpb.Outcome{Corrections: []*checkpb.Correction{{Limit: first.GetLimits()[0], Delta: -30}}})
	if err == nil {
		err = nc.Publish(schemas.SubjectOutcome, body)
	}
	if err != nil {
		t.Fatal(err)
	}
	peek := estimated(1)
	peek.Peek = true
	deadline := time.Now().Add(patience)
	remaining := -1.0
	for remaining != 29 && time.Now().Before(deadline) {
		remaining = ruling(t, nc, peek).GetRemaining()
	}
	if remaining != 29 {
		t.Fatalf("%g would be left after another one, want 29", remaining)
	}
	reported := limited(nil)
	reported.Hits = 1000
	ruling(t, nc, reported)
	if v := ruling(t, nc, limited(nil)); v.GetAction() != checkpb.Action_ACTION_REJECT {
		t.Errorf("after a thousand hits from memory: %v", v)
	}
	large := limited(func(l *checkpb.Limit) { l.Oversized, l.Cost = true, 1 })
	if v := ruling(t, nc, large); v.GetAction() != checkpb.Action_ACTION_REJECT || v.GetRetryAfterMs() != 0 || v.GetTaken() {
		t.Errorf("oversized: %v", v)
	}
}

func TestMalformedRuleIsAnErrorOfTheCheck(t *testing.T) {
	t.Parallel()
	s := natstest.Start(t)
	startDetector(t, s)
	body, err := proto.Marshal(&checkpb.CheckBatch{BudgetMs: 1000, Checks: []*checkpb.Check{limited(func(l *checkpb.Limit) { l.Key = nil })}})
	if err != nil {
		t.Fatal(err)
	}
	reply, err := s.Conn().Request(schemas.SubjectCheck, body, patience)
	if err != nil {
		t.Fatal(err)
	}
	var out checkpb.DecisionBatch
	if err := proto.Unmarshal(reply.Data, &out); err != nil || out.GetDecisions()[0].GetError() == "" || len(out.GetDecisions()[0].GetLimits()) != 1 {
		t.Errorf("%v, %v", &out, err)
	}
}

// An operator's purge of the record takes effect at once, on detectors that have
// just rejected by it, too.
func TestAPurgedLimitStartsAnew(t *testing.T) {
	t.Parallel()
	s, c := natstest.Start(t), new(clock)
	startDetector(t, s, detector.WithClock(c.now))
	nc := s.Conn()
	one := limited(func(l *checkpb.Limit) { l.Bucket = &checkpb.Bucket{Rate: 0.001, Capacity: 1} })
	ruling(t, nc, one)
	if v := ruling(t, nc, one); v.GetAction() != checkpb.Action_ACTION_REJECT {
		t.Fatalf("the second request: %v", v)
	}
	kv, err := s.JetStream().KeyValue(t.Context(), schemas.BucketLimits)
	if err != nil {
		t.Fatal(err)
	}
	l := one.GetLimits()[0]
	if err := kv.Purge(t.Context(), schemas.LimitKey(false, l.GetPolicy(), l.GetRule(), l.GetKey())); err != nil {
		t.Fatal(err)
	}
	if v := ruling(t, nc, one); v.GetAction() != checkpb.Action_ACTION_ALLOW {
		t.Errorf("after the purge: %v", v)
	}
}
