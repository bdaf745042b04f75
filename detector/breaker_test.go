package detector_test

import (
	"crypto/sha256"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/unloop/unloop/detector"
	"github.com/unloop/unloop/schemas"
	"github.com/unloop/unloop/schemas/checkpb"
	"github.com/unloop/unloop/schemas/event"
	"github.com/unloop/unloop/schemas/finding"
	"github.com/unloop/unloop/schemas/kit/natstest"
)

// broken is the check of a request that a circuit breaker alone looks at.
func broken(threshold float64, reset uint32) *checkpb.Check {
	return limited(func(l *checkpb.Limit) {
		l.Rule, l.Bucket, l.Breaker = finding.CircuitBreaker, nil, &checkpb.Breaker{Threshold: threshold, ResetSeconds: reset}
	})
}

// events subscribes to the events of a kind.
func events(t *testing.T, nc *nats.Conn, kind event.Type) func() event.Event {
	t.Helper()
	sub, err := nc.SubscribeSync(string(kind) + ".>")
	if err != nil {
		t.Fatal(err)
	}
	if err := nc.Flush(); err != nil {
		t.Fatal(err)
	}
	return func() event.Event {
		t.Helper()
		msg, err := sub.NextMsg(patience)
		if err != nil {
			t.Fatalf("%s: %v", kind, err)
		}
		e, err := event.Parse(msg.Data)
		if err != nil {
			t.Fatal(err)
		}
		return e
	}
}

// An operator who purges the record of an open breaker ends its loop with the next request.
func TestAPurgedBreakerEndsItsLoop(t *testing.T) {
	t.Parallel()
	s := natstest.Start(t)
	startDetector(t, s)
	nc := s.Conn()
	closed := events(t, nc, event.Resolved)
	for range 2 {
		ruling(t, nc, broken(2, 0))
	}
	v := ruling(t, nc, broken(2, 0))
	if v.GetAction() != checkpb.Action_ACTION_REJECT {
		t.Fatalf("the breaker is closed: %v", v)
	}
	stream, err := s.JetStream().Stream(t.Context(), "KV_"+schemas.BucketBudgets)
	if err == nil {
		err = stream.Purge(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
	if again := ruling(t, nc, broken(2, 0)); again.GetAction() != checkpb.Action_ACTION_ALLOW {
		t.Errorf("the purged breaker is open: %v", again)
	}
	if e := closed(); e.Data.LoopID != v.GetLoopId() || e.Data.Reason != event.ReasonClosed {
		t.Errorf("event %+v", e.Data)
	}
}

// The loop ends by itself, without a request, and that of another breaker stays open.
func TestABreakerWhoseRecordIsDeletedEndsItsLoopWithoutARequest(t *testing.T) {
	t.Parallel()
	for name, remove := range map[string]func(jetstream.KeyValue, string) error{
		"purged":  func(kv jetstream.KeyValue, key string) error { return kv.Purge(t.Context(), key) },
		"deleted": func(kv jetstream.KeyValue, key string) error { return kv.Delete(t.Context(), key) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := natstest.Start(t)
			startDetector(t, s)
			startDetector(t, s)
			nc := s.Conn()
			closed := events(t, nc, event.Resolved)
			other, gone := broken(2, 0), broken(2, 0)
			key := sha256.Sum256([]byte("another"))
			other.Limits[0].Key = key[:]
			for range 2 {
				ruling(t, nc, other)
				ruling(t, nc, gone)
			}
			v := ruling(t, nc, gone)
			kv, err := s.JetStream().KeyValue(t.Context(), schemas.BucketBudgets)
			if err == nil {
				l := gone.GetLimits()[0]
				err = remove(kv, schemas.LimitKey(false, l.GetPolicy(), l.GetRule(), l.GetKey()))
			}
			if err != nil {
				t.Fatal(err)
			}
			if e := closed(); e.Data.LoopID != v.GetLoopId() || e.Data.Reason != event.ReasonClosed {
				t.Errorf("event %+v, want the end of %s", e.Data, v.GetLoopId())
			}
			if again := ruling(t, nc, other); again.GetAction() != checkpb.Action_ACTION_REJECT {
				t.Errorf("the other breaker: %v", again)
			}
		})
	}
}

func TestThreeDetectorsOpenABreakerAtExactlyItsThreshold(t *testing.T) {
	t.Parallel()
	s, c := natstest.Start(t), new(clock)
	for range 3 {
		startDetector(t, s, detector.WithClock(c.now))
	}
	nc := s.Conn()
	opened, closed := events(t, nc, event.Detected), events(t, nc, event.Resolved)
	var asking sync.WaitGroup
	var mu sync.Mutex
	passed, loops := 0, map[string]bool{}
	for range 200 {
		nc := s.Conn()
		asking.Go(func() {
			v := ruling(t, nc, broken(100, 600))
			mu.Lock()
			defer mu.Unlock()
			if v.GetAction() == checkpb.Action_ACTION_ALLOW {
				passed++
			} else if loops[v.GetLoopId()] = true; v.GetExceeded() != checkpb.Exceeded_EXCEEDED_BREAKER || v.GetRetryAfterMs() != 600_000 {
				t.Errorf("open: %v", v)
			}
		})
	}
	asking.Wait()
	if passed != 99 || len(loops) != 1 {
		t.Errorf("%d passed, want 99; incidents %v", passed, loops)
	}
	e := opened()
	if e.Data.Detector != finding.CircuitBreaker || e.Data.Action != "reject" || !loops[e.Data.LoopID] || e.Data.Threshold != 100 {
		t.Errorf("when it opens: %+v", e)
	}
	c.advance(10 * time.Minute)
	if v := ruling(t, nc, broken(100, 600)); v.GetAction() != checkpb.Action_ACTION_ALLOW || v.GetRemaining() != 99 {
		t.Errorf("after ten minutes: %v", v)
	}
	if end := closed(); end.Data.LoopID != e.Data.LoopID {
		t.Errorf("when it closes: %+v", end)
	}
}

func TestOperatorResetsABreakerOnEveryDetector(t *testing.T) {
	t.Parallel()
	s := natstest.Start(t)
	for range 3 {
		startDetector(t, s)
	}
	nc := s.Conn()
	closed := events(t, nc, event.Resolved)
	var v *checkpb.LimitVerdict
	for range 30 { // until all detectors know that it is open
		v = ruling(t, nc, broken(2, 0))
	}
	if v.GetAction() != checkpb.Action_ACTION_REJECT || v.GetRetryAfterMs() != 0 || v.GetLoopId() == "" {
		t.Fatalf("open for good: %v", v)
	}
	r := release(t, nc, v.GetLoopId())
	if r.GetError() != "" || len(r.GetReleased()) != 1 || r.GetReleased()[0].GetDetector() != finding.CircuitBreaker {
		t.Fatalf("release: %v", r)
	}
	if end := closed(); end.Data.LoopID != v.GetLoopId() {
		t.Errorf("when it closes: %+v", end)
	}
	for range 30 {
		if again := ruling(t, nc, broken(1000, 0)); again.GetAction() != checkpb.Action_ACTION_ALLOW {
			t.Fatalf("after the reset: %v", again)
		}
	}
}
