package incident

import (
	"strconv"
	"testing"
	"time"

	"github.com/unloop/unloop/schemas/checkpb"
	"github.com/unloop/unloop/schemas/event"
	"github.com/unloop/unloop/schemas/openloop"
)

// found is a finding that keeps its incident open for so long.
func found(detector string, window time.Duration) Finding {
	return Finding{
		Conversation: "aa", Policy: "default", Detector: detector, Action: checkpb.Action_ACTION_REJECT, Fingerprint: []byte(detector),
		Hits: 1, Count: 6, Threshold: 5, WindowSeconds: int(window / time.Second), At: time.Now(),
	}
}

func TestAnUpdateIsAppliedOnce(t *testing.T) {
	t.Parallel()
	rec := New(&Finding{}, "loop")
	f := found("prompt", time.Minute)
	f.Saved.Requests = 1
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
	f := found("prompt", time.Minute)
	rec := New(&f, "loop")
	for i, skew := range []time.Duration{0, 180 * 24 * time.Hour, 0, -time.Hour, 65 * time.Second, 0} {
		f.At = now.Add(skew + time.Duration(i)*time.Second)
		rec = rec.Add(&f)
		if left := rec.Left(); left < time.Minute || left > 2*time.Minute+time.Hour {
			t.Errorf("clock %s off: %s left", skew, left)
		}
		if ttl := rec.TTL() - keepOver; ttl > 2*time.Hour {
			t.Errorf("clock %s off: kept for %s", skew, ttl)
		}
	}
}

// The record describes its strongest finding, and lists what a release resets.
func TestARecordDescribesItsStrongestFinding(t *testing.T) {
	t.Parallel()
	hint := found("semantic", time.Minute)
	hint.Action, hint.Similarity = checkpb.Action_ACTION_HINT, 0.97
	hint.Related = []openloop.Counter{{Detector: "tool", Fingerprint: "01", KeptSeconds: 10}, {Detector: "tool", Fingerprint: "01", KeptSeconds: 20}}
	reject := found("prompt", time.Minute)
	rec := New(&hint, "loop").Add(&hint).Add(&reject).Add(&hint)
	if rec.Action != "reject" || rec.Detector != "prompt" || rec.Similarity != 0.97 || len(rec.Findings) != 2 {
		t.Errorf("record %+v", rec.Record)
	}
	if len(rec.Counters) != 3 || rec.Counters[1].KeptSeconds != 20 {
		t.Errorf("counters %+v", rec.Counters)
	}
	if key := hint.Key(); key != "live.default.aa" {
		t.Errorf("key %s", key)
	}
	for i := range 100 {
		reject.Fingerprint = []byte{byte(i)}
		rec = rec.Add(&reject)
	}
	if len(rec.Findings) != maxFindings || len(Overflowing(rec.Record)) != 1 {
		t.Errorf("%d findings, overflowing %v", len(rec.Findings), Overflowing(rec.Record))
	}
}

// Of findings with one action, that of the tool detector names the loop, in whatever order
// they come.
func TestATieIsNamedByTheToolFinding(t *testing.T) {
	t.Parallel()
	prompt, tool, cycle := found("prompt", time.Minute), found("tool", time.Minute), found("cycle", time.Minute)
	for _, order := range [][]*Finding{{&prompt, &tool, &cycle}, {&tool, &cycle, &prompt}, {&cycle, &prompt, &tool}} {
		rec := New(order[0], "loop")
		for _, f := range order {
			rec = rec.Add(f)
		}
		if rec.Detector != "tool" {
			t.Errorf("the loop is named by %q", rec.Detector)
		}
	}
}

// A finding that is reported again from a session's stored state knows no calls.
func TestARecordKeepsTheCallsOfAFinding(t *testing.T) {
	t.Parallel()
	f := found("cycle", time.Minute)
	f.Calls, f.Identity = []event.Call{{Tool: "read", Call: "01"}}, &checkpb.Identity{Caller: "ca11"}
	rec := New(&f, "loop").Add(&f)
	f.Calls = nil
	f.Count++
	if rec = rec.Add(&f); len(rec.Findings) != 1 || len(rec.Findings[0].Calls) != 1 || rec.Findings[0].HitCount != f.Count || rec.Caller != "ca11" {
		t.Errorf("record %+v", rec.Record)
	}
	if got := rec.Findings[0]; got.Threshold != 5 || got.WindowSeconds != 60 {
		t.Errorf("finding %+v", got)
	}
}

func TestFindingsThatARecordCountsAsOne(t *testing.T) {
	t.Parallel()
	f, same, hint, other := found("prompt", time.Minute), found("prompt", time.Hour), found("prompt", time.Minute), found("tool", time.Minute)
	hint.Action = checkpb.Action_ACTION_HINT
	if !f.Merges(&same) || f.Merges(&hint) || f.Merges(&other) {
		t.Error("findings are told apart by detector, rule, fingerprint and action")
	}
	f.Saved.Requests, f.Related = 1, []openloop.Counter{{Detector: "tool", Fingerprint: "01"}}
	same.Saved.Requests, same.Related = 1, []openloop.Counter{{Detector: "tool", Fingerprint: "02"}}
	if both := f.Merge(same); both.Hits != 2 || both.Saved.Requests != 2 || both.WindowSeconds != 3600 || len(both.Related) != 2 {
		t.Errorf("merged: %+v", both)
	}
}

func TestEventsOfARecord(t *testing.T) {
	t.Parallel()
	f := found("prompt", time.Minute)
	e := New(&f, "loop").Event(event.Detected, f.At)
	if e.ID != "loop.loop.detected" || e.Data.Findings == nil {
		t.Errorf("event %+v", e)
	}
	old := Record{openloop.Record{Data: event.Data{LastSeen: f.At, WindowSeconds: 60}}} // without an end
	if left := old.Left(); left != time.Minute {
		t.Errorf("a record of an older detector stays for %s", left)
	}
	f.At = f.At.AddDate(8000, 0, 0)
	if far := New(&f, "loop"); len(far.Append(nil)) > 0 {
		t.Errorf("a time that JSON can't hold: %s", far.Append(nil))
	}
}

// Ten thousand hits in a minute are a handful of events.
func TestAnIncidentReportsItsGrowth(t *testing.T) {
	t.Parallel()
	f := found("prompt", time.Minute)
	start, rec := f.At, New(&f, "loop")
	grew := map[int]int{}
	for i := range 120 {
		f.At, f.RequestID, f.Hits = start.Add(time.Duration(i)*500*time.Millisecond), strconv.Itoa(i), 84
		if i == 0 {
			f.Hits = 1
		}
		was := rec.Reported.Number
		rec, _ = rec.Apply(strconv.Itoa(i), []Finding{f})
		if rec.Reported.Number > was {
			grew[rec.Reported.Number] = rec.Requests
		}
	}
	if rec.Requests != 1+119*84 || len(grew) != 3 || grew[1] != 85 || rec.Event(event.Ongoing, f.At).ID != "loop.loop.ongoing.3" {
		t.Errorf("%d requests, events after %v", rec.Requests, grew)
	}
	f.At = start.Add(3 * time.Minute)
	if rec, _ = rec.Apply("later", []Finding{f}); rec.Reported.Number != 4 {
		t.Error("after a minute of growth there is no event")
	}
}

// Dollars are counted for models with a price alone.
func TestSavedDollars(t *testing.T) {
	t.Parallel()
	f := found("prompt", time.Minute)
	f.Saved.Requests = 1
	rec := New(&f, "loop").Add(&f)
	if rec.Saved.USD != nil || rec.Saved.Requests != 1 {
		t.Errorf("without a price: %+v", rec.Saved)
	}
	price := 0.25
	f.Saved.USD = &price
	rec = rec.Add(&f).Add(&f)
	if rec.Saved.USD == nil || *rec.Saved.USD != 0.5 || rec.Saved.Requests != 3 || price != 0.25 {
		t.Errorf("saved %+v", rec.Saved)
	}
}

// Detectors write their findings in any order.
func TestAnOlderFindingDoesNotReplaceANewerOne(t *testing.T) {
	t.Parallel()
	newer, older := found("prompt", time.Minute), found("prompt", time.Minute)
	newer.At, newer.Count, newer.Similarity = older.At.Add(time.Second), 8, 0.98
	older.Count, older.Similarity = 7, 0.97
	rec := New(&older, "loop").Add(&newer).Add(&older)
	if f := rec.Findings[0]; f.HitCount != 8 || f.Similarity != 0.98 || rec.Similarity != 0.98 || rec.Requests != 2 {
		t.Errorf("record %+v", rec.Record)
	}
}

func TestAnIncidentThatIsOverIsFollowedByAnother(t *testing.T) {
	t.Parallel()
	f := found("prompt", time.Minute)
	rec := New(&f, "first").Add(&f)
	if rec.IsOver(f.At.Add(time.Minute)) || !rec.IsOver(f.At.Add(62*time.Second)) {
		t.Errorf("%s remain", rec.Remaining(f.At))
	}
	next := rec.Follow(&f, "second")
	if next.LoopID != "second" || next.Former.LoopID != "first" || next.Former.Over != event.ReasonExpired {
		t.Errorf("former %+v", next.Former)
	}
	if e := (Record{Record: *next.Former}).Event(event.Resolved, f.At); e.ID != "first.loop.resolved" || e.Data.Reason != "expired" {
		t.Errorf("event %+v", e)
	}
}
