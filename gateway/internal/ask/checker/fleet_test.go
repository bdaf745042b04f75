package checker

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"google.golang.org/protobuf/proto"

	"github.com/unloop/unloop/schemas"
	"github.com/unloop/unloop/schemas/checkpb"
	"github.com/unloop/unloop/schemas/kit/fleet"
	"github.com/unloop/unloop/schemas/kit/natstest"
)

// named is a detector that takes checks under its name alone.
func named(t *testing.T, s *natstest.Server, name string, answer func(*checkpb.CheckBatch) []byte) {
	t.Helper()
	nc := s.Conn()
	_, err := nc.Subscribe(schemas.DetectorSubject(name), func(m *nats.Msg) {
		var batch checkpb.CheckBatch
		if err := proto.Unmarshal(m.Data, &batch); err != nil {
			t.Errorf("batch: %v", err)
			return
		}
		if body := answer(&batch); body != nil {
			_ = m.Respond(body)
		}
	})
	if err == nil {
		err = nc.Flush()
	}
	if err != nil {
		t.Fatal(err)
	}
}

// checkBy is a check of one of many callers.
func checkBy(caller int) *checkpb.Check {
	check := checkOf(fmt.Sprint(caller))
	check.Identity = &checkpb.Identity{Caller: fmt.Sprint("caller ", caller)}
	return check
}

func TestASilentDetectorIsPassedBy(t *testing.T) {
	t.Parallel()
	s := natstest.StartBare(t)
	var frozen atomic.Int64
	named(t, s, "frozen", func(*checkpb.CheckBatch) []byte { frozen.Add(1); return nil })
	named(t, s, "alive", each(t, func(*checkpb.Check) *checkpb.Decision { return &checkpb.Decision{} }))
	c := newChecker(s.Service(), patience, time.Now)
	c.fleet.HearAt("frozen", time.Now().Add(-2*fleet.SilentAfter))
	c.fleet.HearAt("alive", time.Now().Add(patience)) // it goes on beating
	for i := range 20 {
		if _, _, err := c.Check(t.Context(), checkBy(i)); err != nil {
			t.Fatalf("check %d: %v", i, err)
		}
	}
	if n := frozen.Load(); n != 0 {
		t.Errorf("the frozen detector was asked %d times", n)
	}
}

func TestAFrozenDetectorsBatchGoesToAnotherInTime(t *testing.T) {
	t.Parallel()
	s := natstest.StartBare(t)
	asked := make(chan struct{}, 100)
	named(t, s, "frozen", func(*checkpb.CheckBatch) []byte { asked <- struct{}{}; return nil })
	named(t, s, "alive", each(t, func(*checkpb.Check) *checkpb.Decision { return &checkpb.Decision{} }))
	// The other detector has three fifths of the time.
	c := newChecker(s.Service(), 5*time.Second, time.Now)
	for i := range 100 { // on a machine under load its beat may be over before the check
		if len(asked) > 0 {
			break
		}
		c.fleet.Hear("frozen") // its last beat
		c.fleet.HearAt("alive", time.Now().Add(patience))
		if _, _, err := c.Check(t.Context(), checkBy(i)); err != nil {
			t.Fatalf("check %d: %v", i, err)
		}
	}
	if len(asked) == 0 {
		t.Error("the frozen detector was never asked; nothing was tried again")
	}
}

func TestABatchThatADetectorRefusesGoesToAnother(t *testing.T) {
	t.Parallel()
	s := natstest.StartBare(t)
	var hits sync.Map // by the request's id: a detector may have counted what another is sent
	same := func(check *checkpb.Check) {
		if first, known := hits.LoadOrStore(check.GetRequestId(), check.GetHit()); check.GetHit() == "" || known && first != check.GetHit() {
			t.Errorf("request %s is hit %q", check.GetRequestId(), check.GetHit())
		}
	}
	named(t, s, "back", each(t, func(check *checkpb.Check) *checkpb.Decision {
		same(check)
		return &checkpb.Decision{Error: checkpb.ErrorStalled}
	}))
	detector(t, s, each(t, func(check *checkpb.Check) *checkpb.Decision {
		same(check)
		return &checkpb.Decision{HitCounts: []uint32{1}}
	}))
	c := newChecker(s.Service(), patience, time.Now)
	for _, name := range []string{"back", "gone"} { // nobody answers for the other
		c.fleet.HearAt(name, time.Now().Add(patience))
	}
	for i := range 4 {
		d, _, err := c.Check(t.Context(), checkBy(i))
		if err != nil || len(d.GetHitCounts()) != 1 {
			t.Fatalf("check %d: %v, %v", i, d, err)
		}
	}
}
