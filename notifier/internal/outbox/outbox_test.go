package outbox_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/unloop/unloop/notifier"
	"github.com/unloop/unloop/notifier/internal/outbox"
	"github.com/unloop/unloop/notifier/internal/routing"
	"github.com/unloop/unloop/schemas/event"
)

var (
	now   = time.Date(2026, 5, 22, 14, 30, 0, 0, time.UTC)
	route = &routing.Route{Name: "all"}
	mine  = outbox.Claim{By: "me", ID: "1"}
	other = outbox.Claim{By: "other", ID: "2"}
)

func of(typ event.Type, loop string) *event.Event {
	e := event.New(typ, loop+"."+string(typ), now)
	e.Data.LoopID = loop
	return &e
}

func add(t *testing.T, r outbox.Record, e *event.Event) outbox.Record {
	t.Helper()
	next, changed, err := r.Add(e, "ops", route, nil, now)
	if err != nil || !changed {
		t.Fatalf("add %s: %v, %v", e.ID, changed, err)
	}
	return next
}

// While a message is owed, what happens to its loop follows in the next one.
func TestNothingOvertakesAMessageThatIsOwed(t *testing.T) {
	t.Parallel()
	r := add(t, add(t, outbox.Record{}, of(event.Detected, "a")), of(event.Resolved, "a"))
	if r.Batch.ID != "a.loop.detected" {
		t.Fatalf("owes %+v", r.Batch)
	}
	if _, changed, _ := r.Add(of(event.Detected, "a"), "ops", route, nil, now); changed {
		t.Error("an event was added twice")
	}
	r, taken := r.Take(mine, outbox.Claim{}, route, nil, now)
	if !taken || r.Claim != mine {
		t.Fatal("not taken")
	}
	if _, taken := r.Take(other, outbox.Claim{}, route, nil, now); taken {
		t.Error("taken twice")
	}
	r, _ = r.Finish(mine, r.Batch.ID, outbox.Outcome{Attempted: true, Wait: time.Minute}, route, nil, now)
	if r.Attempts != 1 || !r.Next().Equal(now.Add(time.Minute)) || r.Batch.ID != "a.loop.detected" {
		t.Errorf("after a failure: %+v", r)
	}
	if _, taken := r.Take(mine, outbox.Claim{}, route, nil, now); taken {
		t.Error("taken before it is due")
	}
	r, taken = r.Take(mine, outbox.Claim{}, route, nil, now.Add(time.Minute))
	if !taken {
		t.Fatal("not taken when it is due")
	}
	r, _ = r.Finish(mine, r.Batch.ID, outbox.Outcome{Over: true, Attempted: true}, route, nil, now.Add(time.Minute))
	if !r.Owed() || r.Batch.ID != "a.loop.resolved" || r.Attempts != 0 {
		t.Errorf("after the delivery: %+v", r)
	}
}

// A claim that has lapsed is replaced; who had it can still note that the message is over.
func TestAClaimLapses(t *testing.T) {
	t.Parallel()
	r, _ := add(t, outbox.Record{}, of(event.Detected, "a")).Take(mine, outbox.Claim{}, route, nil, now)
	id := r.Batch.ID
	r, taken := r.Take(other, mine, route, nil, now)
	if !taken || r.Claim != other {
		t.Fatal("the claim did not lapse")
	}
	if _, changed := r.Finish(mine, id, outbox.Outcome{Attempted: true, Wait: time.Hour}, route, nil, now); changed {
		t.Error("a failure was noted without the claim")
	}
	over, changed := r.Finish(mine, id, outbox.Outcome{Over: true}, route, nil, now)
	if !changed || over.Owed() {
		t.Error("the delivery was not noted")
	}
	if _, changed := over.Finish(other, id, outbox.Outcome{Over: true}, route, nil, now); changed {
		t.Error("it was noted twice")
	}
}

func TestAGroupIsBoundedWhileAMessageIsOwed(t *testing.T) {
	t.Parallel()
	grouped := &routing.Route{Name: "all", GroupBy: []string{"tenant"}}
	var r outbox.Record
	var err error
	n := 0
	for err == nil && n < 1000 {
		if r, _, err = r.Add(of(event.Detected, fmt.Sprint("loop-", n)), "ops", grouped, nil, now); err == nil {
			n++
		}
	}
	if n != 2*routing.MaxLoops {
		t.Errorf("%d loops, %v", n, err)
	}
	for i := range r.Group.Loops {
		r.Group.Loops[i].Event.Data.Session = strings.Repeat("0123456789abcdef", 100)
	}
	stored := r.Append(nil)
	var again outbox.Record
	if err := again.Parse(stored); err != nil || len(stored) > 1<<19 || len(again.Group.Loops) != n {
		t.Errorf("%d bytes, %v", len(stored), err)
	}
}

func TestRecordsAreKeptForAsLongAsTheyMatter(t *testing.T) {
	t.Parallel()
	owed := add(t, outbox.Record{}, of(event.Detected, "a"))
	open, _ := owed.Finish(mine, owed.Batch.ID, outbox.Outcome{Over: true}, route, nil, now)
	var idle outbox.Record
	if owed.TTL() < 7*24*time.Hour || open.TTL() < 48*time.Hour || open.TTL() >= owed.TTL() || idle.TTL() >= time.Hour {
		t.Errorf("kept for %s, %s, %s", owed.TTL(), open.TTL(), idle.TTL())
	}
	if !open.Next().IsZero() {
		t.Errorf("due at %s", open.Next())
	}
}

func TestTheStandardScheduleHasTenAttemptsInThreeDays(t *testing.T) {
	t.Parallel()
	s, total := outbox.Schedule(notifier.DefaultConfig().WebhookRetry), time.Duration(0)
	attempts := 1
	for {
		wait, more := s.Wait(attempts, 0, 0.5)
		if !more {
			break
		}
		total += wait
		attempts++
	}
	if attempts != 10 || total != 75*time.Hour+35*time.Minute+5*time.Second {
		t.Errorf("%d attempts in %s", attempts, total)
	}
	low, _ := s.Wait(2, 0, 0)
	high, _ := s.Wait(2, 0, 0.999)
	if low != 270*time.Second || high <= 5*time.Minute || high > 330*time.Second {
		t.Errorf("from %s to %s", low, high)
	}
	if asked, _ := s.Wait(1, time.Hour, 0.5); asked != time.Hour {
		t.Errorf("an endpoint that asks for an hour gets %s", asked)
	}
	if asked, _ := s.Wait(1, 1000*time.Hour, 0.5); asked != outbox.MaxAfter {
		t.Errorf("an endpoint that asks for weeks gets %s", asked)
	}
}
