package board

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/unloop/unloop/schemas/event"
)

// three returns a board with three open loops and one that has ended.
func three(t *testing.T) *Board {
	t.Helper()
	b := New()
	for i, in := range []struct {
		policy, action string
		tools          string
		hits, stopped  int
		usd            *float64
		age            time.Duration
	}{
		{"a", "hint", "ls,cat", 3, 0, nil, 30 * time.Minute},
		{"a", "reject", "ls", 90, 80, new(0.5), 10 * time.Minute},
		{"b", "break", "", 9, 2, new(7.0), 50 * time.Minute},
	} {
		rec := incident(fmt.Sprint("l", i), in.policy)
		rec.Action, rec.HitCount, rec.Saved = in.action, in.hits, event.Saved{Requests: in.stopped, InputTokens: in.stopped * 10, USD: in.usd}
		rec.FirstSeen, rec.LastSeen, rec.Ends = noon.Add(-in.age), noon.Add(-time.Duration(i)*time.Second), noon.Add(time.Hour)
		rec.Findings = []event.Finding{{Detector: "tool", Tool: in.tools}}
		b.Incidents.Put(fmt.Sprint("k", i), body(t, rec))
	}
	ended := data("l3", "b")
	ended.Action, ended.FirstSeen, ended.LastSeen = "hint", noon.Add(-55*time.Minute), noon.Add(-45*time.Minute)
	b.History.Add(1, published(t, event.Resolved, noon.Add(-44*time.Minute), ended))
	return b
}

func ids(loops []Loop) string {
	all := make([]string, len(loops))
	for i := range loops {
		all[i] = loops[i].LoopID
	}
	return strings.Join(all, " ")
}

func TestLoopsAreSortedAndSearched(t *testing.T) {
	t.Parallel()
	b := three(t)
	for _, c := range []struct {
		f    Filter
		want string
	}{
		{Filter{}, "l0 l1 l2 l3"}, {Filter{Order: BySeen}, "l0 l1 l2 l3"}, {Filter{Order: ByAge}, "l1 l0 l2 l3"},
		{Filter{Order: ByHits}, "l1 l2 l0 l3"}, {Filter{Order: ByStopped}, "l1 l2 l0 l3"}, {Filter{Order: BySaved}, "l2 l1 l0 l3"},
		{Filter{Tool: "ls"}, "l0 l1"}, {Filter{Tool: "cat"}, "l0"}, {Filter{Tool: "ls,cat"}, ""},
		{Filter{Words: []string{"acme", "cat"}}, "l0"}, {Filter{Words: []string{"break"}}, "l2"}, {Filter{Words: []string{"cat", "break"}}, ""},
		{Filter{Policy: "b", State: Open}, "l2"},
	} {
		if got := ids(first(b.Loops(c.f, noon))); got != c.want {
			t.Errorf("%+v: %s, want %s", c.f, got, c.want)
		}
	}
}

// A loop with several tools is in the group of each, and one without in that without a name.
func TestLoopsAreGrouped(t *testing.T) {
	t.Parallel()
	loops, _ := three(t).Loops(Filter{State: Open}, noon)
	for _, c := range []struct {
		by    By
		order Order
		want  string
	}{
		{"tool", ByHits, "ls:2:93:reject :1:9:break cat:1:3:hint"},
		{"policy", BySaved, "b:1:9:break a:2:93:reject"},
		{"policy", ByHits, "a:2:93:reject b:1:9:break"},
		{"policy", ByStopped, "a:2:93:reject b:1:9:break"},
		{"policy", ByAge, "a:2:93:reject b:1:9:break"},
		{"policy", BySeen, "a:2:93:reject b:1:9:break"},
		{"tenant", "", "acme:3:102:break"}, {"caller", "", "ca11:3:102:break"}, {"project", "", ":3:102:break"}, {"session", "", ":3:102:break"},
	} {
		var got []string
		for _, g := range Groups(loops, c.by, c.order) {
			got = append(got, fmt.Sprintf("%s:%d:%d:%s", g.Name, g.Loops, g.Hits, g.Worst))
		}
		if diff := cmp.Diff(strings.Fields(c.want), got); diff != "" {
			t.Errorf("by %s, %s: %s", c.by, c.order, diff)
		}
	}
	if len(Groupings()) != len(groupings) {
		t.Error("Groupings does not list all")
	}
}

// All loops count in the steps of a timeline, however many it names; what they saved counts
// where it was saved.
func TestATimelineCountsAllLoops(t *testing.T) {
	t.Parallel()
	b := three(t)
	grown := data("l1", "a")
	grown.LastSeen, grown.Saved = noon.Add(-6*time.Minute), event.Saved{Requests: 30, USD: new(0.2)}
	b.History.Add(2, published(t, event.Ongoing, grown.LastSeen, grown))
	loops, _ := b.Loops(Filter{Since: noon.Add(-time.Hour)}, noon)
	line := Line(loops, noon.Add(-time.Hour), noon)
	if len(line.Steps) != 60 || line.Total != 4 || len(line.Bars) != 4 {
		t.Fatalf("%d steps, %d loops, %d bars", len(line.Steps), line.Total, len(line.Bars))
	}
	if s := line.Steps[5]; s.Began != 1 || s.Open["hint"] != 1 || len(s.Open) != 1 {
		t.Errorf("when the first began: %+v", s)
	}
	if s := line.Steps[20]; s.Open["break"] != 1 || len(s.Open) != 1 {
		t.Errorf("between: %+v", s)
	}
	if s := line.Steps[54]; s.Saved.Requests != 30 || *s.Saved.USD != 0.2 {
		t.Errorf("when the event came: %+v", s.Saved)
	}
	last := line.Steps[59]
	if last.Saved.Requests != 52 || *last.Saved.USD < 7.2999 || *last.Saved.USD > 7.3001 || last.Open["hint"]+last.Open["reject"]+last.Open["break"] != 3 {
		t.Errorf("now: %+v", last)
	}
	for i := range 300 {
		b.Incidents.Put(fmt.Sprint("more", i), body(t, incident(fmt.Sprint("m", i), "p")))
	}
	loops, _ = b.Loops(Filter{}, noon)
	if line = Line(loops, noon.Add(-time.Hour), noon); line.Total != 304 || len(line.Bars) != 200 || line.Steps[59].Open["reject"] != 301 || line.Bars[0].LoopID != "l2" {
		t.Errorf("with many: %d of %d named, %v, the longest is %s", len(line.Bars), line.Total, line.Steps[59].Open, line.Bars[0].LoopID)
	}
}

// The course of a loop keeps its beginning and its end, and few points between.
func TestTheCourseOfALoopIsBounded(t *testing.T) {
	t.Parallel()
	b := New()
	for i := range 200 {
		d := data("l1", "p")
		d.HitCount, d.LastSeen, d.Action = i+1, noon.Add(time.Duration(i)*time.Second), "hint"
		b.History.Add(uint64(i+1), published(t, event.Ongoing, d.LastSeen, d))
	}
	now := noon.Add(200 * time.Second)
	in := incident("l1", "p")
	in.HitCount, in.LastSeen, in.Ends = 500, now, now.Add(time.Minute)
	b.Incidents.Put("k", body(t, in))
	l, _ := b.Loop("l1", now)
	course := l.Course()
	if n := len(course); n > maxCourse || n < maxCourse/2 || course[0].HitCount != 1 || course[n-1].HitCount != 500 || !course[n-1].At.Equal(now) {
		t.Errorf("%d points, from %+v to %+v", n, course[0], course[n-1])
	}
	for i := range course[1:] {
		if !course[i+1].At.After(course[i].At) {
			t.Errorf("%+v comes after %+v", course[i+1], course[i])
		}
	}
	if again := l.Course(); len(again) != len(course) {
		t.Error("reading the course changed it")
	}
	if got := Summarize([]Loop{l}, noon, now).AfterHints; got != (AfterHints{Stopped: 1}) {
		t.Errorf("hinted, then rejected: %+v", got)
	}
}

func TestWhatBecomesOfHintedLoops(t *testing.T) {
	t.Parallel()
	loops, _ := three(t).Loops(Filter{}, noon)
	stats := Summarize(loops, noon.Add(-time.Hour), noon)
	if want := (AfterHints{Recovered: 1, Open: 1}); stats.AfterHints != want {
		t.Errorf("%+v, want %+v", stats.AfterHints, want)
	}
	if len(stats.Tools) != 2 || stats.Tools[0].Name != "ls" || stats.Tools[0].Loops != 2 {
		t.Errorf("tools %+v", stats.Tools)
	}
}
