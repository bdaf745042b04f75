package routing

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/unloop/unloop/schemas/event"
	"github.com/unloop/unloop/schemas/match"
	"github.com/unloop/unloop/schemas/silence"
)

var start = time.Date(2026, 5, 22, 14, 0, 0, 0, time.UTC)

// at is so many seconds after the start.
func at(seconds int) time.Time { return start.Add(time.Duration(seconds) * time.Second) }

func anEvent(typ event.Type, loop string, seconds int) *event.Event {
	e := event.New(typ, fmt.Sprintf("%s-%s-%d", typ, loop, seconds), at(seconds))
	e.TenantID, e.Data.LoopID, e.Data.Policy, e.Data.Action, e.Data.FirstSeen = "acme", loop, "agent-tools", "reject", start
	return &e
}

// run is a group at an endpoint that takes every message at once.
type run struct {
	route    *Route
	group    Group
	silences []silence.Silence
	sent     []string
}

// text describes a batch: D or R and the loop of each event.
func text(b *Batch) string {
	var parts []string
	for _, e := range b.Events {
		parts = append(parts, map[event.Type]string{event.Detected: "D", event.Ongoing: "O", event.Resolved: "R"}[e.Type]+e.Data.LoopID)
	}
	return strings.Join(parts, " ")
}

func (r *run) add(e *event.Event) {
	r.until(e.Timestamp)
	r.group = r.route.Add(r.group, e, e.Timestamp)
	r.until(e.Timestamp)
}

// until does what is due up to a time.
func (r *run) until(now time.Time) {
	for i := 0; !r.group.Due.IsZero() && !r.group.Due.After(now); i++ {
		when := r.group.Due
		if i > 1000 {
			panic("the group is due for ever")
		}
		var b *Batch
		if r.group, b = r.route.Collect(r.group, r.silences, when); b != nil {
			r.sent = append(r.sent, fmt.Sprintf("%d:%s", int(when.Sub(start).Seconds()), text(b)))
			r.group = r.route.Sent(r.group, b, when)
		}
	}
}

func (r *run) want(t *testing.T, want ...string) {
	t.Helper()
	if !slices.Equal(r.sent, want) {
		t.Errorf("sent %q, want %q", r.sent, want)
	}
}

func TestALoopCausesOneMessageAndOneWhenItEnds(t *testing.T) {
	t.Parallel()
	r := run{route: &Route{Name: "all"}}
	r.add(anEvent(event.Detected, "1", 0))
	r.add(anEvent(event.Ongoing, "1", 10))
	r.add(anEvent(event.Ongoing, "1", 70))
	r.add(anEvent(event.Resolved, "1", 130))
	r.until(at(100_000))
	r.want(t, "0:D1", "130:R1")
	if len(r.group.Loops) != 0 {
		t.Errorf("%d loops are left", len(r.group.Loops))
	}
}

func TestOngoingIsSentWhereARouteSaysSo(t *testing.T) {
	t.Parallel()
	r := run{route: &Route{Name: "all", Events: []event.Type{event.Ongoing}}}
	r.add(anEvent(event.Detected, "1", 0))
	r.add(anEvent(event.Ongoing, "1", 60))
	r.add(anEvent(event.Resolved, "1", 130))
	r.want(t, "60:O1")
	if len(r.group.Loops) != 0 {
		t.Error("the loop stays")
	}
}

func TestGroupsWait(t *testing.T) {
	t.Parallel()
	r := run{route: &Route{Name: "all", GroupBy: []string{"tenant"}, GroupWait: 30 * time.Second, GroupInterval: 300 * time.Second}}
	r.add(anEvent(event.Detected, "1", 0))
	r.add(anEvent(event.Detected, "2", 20))
	r.add(anEvent(event.Detected, "3", 40))
	r.add(anEvent(event.Resolved, "1", 50))
	r.until(at(400))
	r.add(anEvent(event.Resolved, "2", 700))
	r.add(anEvent(event.Resolved, "3", 800))
	r.until(at(100_000))
	r.want(t, "30:D1 D2", "330:R1 D2 D3", "700:R2 D3", "1000:R3")
}

func TestOpenLoopsAreRepeated(t *testing.T) {
	t.Parallel()
	r := run{route: &Route{Name: "all", RepeatInterval: time.Minute}}
	r.add(anEvent(event.Detected, "1", 0))
	r.add(anEvent(event.Ongoing, "1", 30))
	r.until(at(150))
	r.add(anEvent(event.Resolved, "1", 160))
	r.until(at(100_000))
	r.want(t, "0:D1", "60:D1", "120:D1", "160:R1")
}

func TestALoopWhoseEndWasLostIsForgotten(t *testing.T) {
	t.Parallel()
	r := run{route: &Route{Name: "all", RepeatInterval: 12 * time.Hour}}
	r.add(anEvent(event.Detected, "1", 0))
	r.until(start.Add(30 * 24 * time.Hour))
	if len(r.sent) != 5 || len(r.group.Loops) != 0 {
		t.Errorf("sent %q, %d loops are left", r.sent, len(r.group.Loops))
	}
}

func silenced(from, to int) []silence.Silence {
	return []silence.Silence{{ID: "s", Author: "ops", Matchers: match.Matchers{"tenant": {"ac*"}}, Start: at(from), End: at(to)}}
}

func TestSilences(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name     string
		from, to int
		events   []*event.Event
		want     []string
	}{
		{"ends while the loop is open", 0, 100, []*event.Event{anEvent(event.Detected, "1", 10), anEvent(event.Resolved, "1", 500)}, []string{"100:D1", "500:R1"}},
		{"outlasts the loop", 0, 100, []*event.Event{anEvent(event.Detected, "1", 10), anEvent(event.Resolved, "1", 50)}, nil},
		{"begins after the message", 20, 100, []*event.Event{anEvent(event.Detected, "1", 10), anEvent(event.Resolved, "1", 50)}, []string{"10:D1", "50:R1"}},
		{"is over", 0, 10, []*event.Event{anEvent(event.Detected, "1", 10), anEvent(event.Resolved, "1", 50)}, []string{"10:D1", "50:R1"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			r := run{route: &Route{Name: "all"}, silences: silenced(tt.from, tt.to)}
			for _, e := range tt.events {
				r.until(e.Timestamp)
				r.add(e)
			}
			r.until(at(100_000))
			r.want(t, tt.want...)
			if len(r.group.Loops) != 0 {
				t.Errorf("%d loops are left", len(r.group.Loops))
			}
		})
	}
}

func TestEventsThatComeAgainChangeNothing(t *testing.T) {
	t.Parallel()
	r := run{route: &Route{Name: "all", RepeatInterval: time.Hour}}
	first := anEvent(event.Detected, "1", 0)
	r.add(first)
	r.add(first)
	r.add(anEvent(event.Ongoing, "1", 30))
	r.add(first)
	r.want(t, "0:D1")
}

func TestAGroupWithTooManyLoopsIsDueAtOnce(t *testing.T) {
	t.Parallel()
	r := run{route: &Route{Name: "all", GroupBy: []string{"tenant"}, GroupWait: time.Hour, GroupInterval: time.Hour}}
	for i := range MaxLoops + 5 {
		r.add(anEvent(event.Detected, fmt.Sprint(i), i))
	}
	if len(r.sent) == 0 || len(r.group.Loops) > MaxLoops {
		t.Errorf("%d messages, %d loops", len(r.sent), len(r.group.Loops))
	}
}

func TestIDsAreStableAndDiffer(t *testing.T) {
	t.Parallel()
	route := &Route{Name: "all", GroupBy: []string{"tenant"}, RepeatInterval: time.Minute}
	g := route.Add(Group{}, anEvent(event.Detected, "1", 0), start)
	g, one := route.Collect(g, nil, start)
	_, again := route.Collect(g, nil, at(5))
	if one.ID != again.ID || one.ID != "loop.detected-1-0" {
		t.Errorf("ids %q and %q", one.ID, again.ID)
	}
	g = route.Sent(g, one, start)
	_, repeated := route.Collect(g, nil, at(60))
	if repeated == nil || repeated.ID == one.ID {
		t.Errorf("repeated as %+v", repeated)
	}
}

// What was added while a batch was on its way is sent with the next one.
func TestEventsDuringASendAreNotLost(t *testing.T) {
	t.Parallel()
	route := &Route{Name: "all"}
	g := route.Add(Group{}, anEvent(event.Detected, "1", 0), start)
	g, b := route.Collect(g, nil, start)
	g = route.Add(g, anEvent(event.Resolved, "1", 5), at(5))
	g = route.Sent(g, b, at(10))
	if _, b = route.Collect(g, nil, g.Due); b == nil || text(b) != "R1" || !b.Resolved {
		t.Errorf("the end is sent as %+v", b)
	}
}

func TestRoutes(t *testing.T) {
	t.Parallel()
	routes := []Route{
		{Name: "shadow", Match: match.Matchers{"severity": {"info"}}},
		{Name: "acme", Match: match.Matchers{"tenant": {"acme*"}, "policy": {"!test-*"}}, GroupBy: []string{"tenant", "policy"}},
	}
	e := anEvent(event.Detected, "1", 0)
	e.TenantID = "acme,inc"
	if r := Find(routes, e); r == nil || r.Name != "acme" || r.Key(e) != `tenant=acme\,inc,policy=agent-tools` {
		t.Errorf("found %+v", r)
	}
	e.Data.Mode = event.ModeShadow
	if r := Find(routes, e); r == nil || r.Name != "shadow" || r.Key(e) != "1" {
		t.Errorf("found %+v", r)
	}
	e.Data.Mode, e.Data.Policy = event.ModeEnforce, "test-1"
	if r := Find(routes, e); r != nil {
		t.Errorf("found %+v", r)
	}
}

func TestThrottle(t *testing.T) {
	t.Parallel()
	limit := Throttle{Messages: 3, Per: 3 * time.Second}
	var state time.Time
	var waits []time.Duration
	for range 5 {
		var wait time.Duration
		state, wait = limit.Take(state, start)
		waits = append(waits, wait)
	}
	if want := []time.Duration{0, 0, 0, time.Second, 2 * time.Second}; !slices.Equal(waits, want) {
		t.Errorf("waits %v, want %v", waits, want)
	}
	if _, wait := limit.Take(state, at(60)); wait != 0 {
		t.Errorf("an idle endpoint waits %s", wait)
	}
	if _, wait := (Throttle{}).Take(time.Time{}, start); wait != 0 {
		t.Errorf("without a limit it waits %s", wait)
	}
}

// Whatever happens, in whatever order: each loop is announced at most once as often as it
// began, its end follows its beginning, and nothing is left when all has ended.
func TestGroupsKeepTheirPromises(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		seconds := func(label string) time.Duration {
			return time.Duration(rapid.IntRange(0, 90).Draw(rt, label)) * time.Second
		}
		r := run{route: &Route{Name: "all", GroupWait: seconds("wait"), GroupInterval: seconds("interval")}}
		if rapid.Bool().Draw(rt, "grouped") {
			r.route.GroupBy = []string{"tenant"}
		}
		if rapid.Bool().Draw(rt, "silenced") {
			r.silences = silenced(rapid.IntRange(0, 200).Draw(rt, "from"), rapid.IntRange(0, 400).Draw(rt, "to"))
		}
		groups := map[string]*run{}
		now, began, ended := 0, map[string]bool{}, map[string]bool{}
		for range rapid.IntRange(1, 40).Draw(rt, "events") {
			now += rapid.IntRange(0, 30).Draw(rt, "step")
			loop := fmt.Sprint(rapid.IntRange(0, 4).Draw(rt, "loop"))
			typ := event.Detected
			switch {
			case ended[loop]: // it comes late
				typ = rapid.SampledFrom([]event.Type{event.Ongoing, event.Detected}).Draw(rt, "late")
			case began[loop]:
				typ = rapid.SampledFrom([]event.Type{event.Ongoing, event.Resolved, event.Detected}).Draw(rt, "type")
			}
			began[loop], ended[loop] = true, ended[loop] || typ == event.Resolved
			e := anEvent(typ, loop, now)
			key := r.route.Key(e)
			if groups[key] == nil {
				groups[key] = &run{route: r.route, silences: r.silences}
			}
			groups[key].until(at(now))
			groups[key].add(e)
		}
		for loop := range began {
			if !ended[loop] {
				e := anEvent(event.Resolved, loop, now+1)
				groups[r.route.Key(e)].add(e)
			}
		}
		for _, g := range groups {
			g.until(at(1_000_000))
			if len(g.group.Loops) != 0 {
				rt.Fatalf("loops are left: %+v", g.group)
			}
			checkMessages(rt, g, began)
		}
	})
}

func checkMessages(rt *rapid.T, g *run, began map[string]bool) {
	all := strings.Join(g.sent, "\n")
	if strings.Contains(all, "O") {
		rt.Fatalf("a message that the route does not want: %q", g.sent)
	}
	for loop := range began {
		if n := strings.Count(all, "R"+loop); n > 1 {
			rt.Fatalf("the end of %s is sent %d times: %q", loop, n, g.sent)
		}
		if end := strings.Index(all, "R"+loop); end >= 0 && strings.LastIndex(all, "D"+loop) > end {
			rt.Fatalf("%s is announced after its end: %q", loop, g.sent)
		}
	}
	if len(g.silences) == 0 {
		for loop := range began {
			if len(g.route.GroupBy) > 0 && !strings.Contains(all, "R"+loop) {
				rt.Fatalf("the end of %s is not sent: %q", loop, g.sent)
			}
		}
	}
}
