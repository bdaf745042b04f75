package board

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/unloop/unloop/schemas/event"
	"github.com/unloop/unloop/schemas/finding"
	"github.com/unloop/unloop/schemas/openloop"
	"github.com/unloop/unloop/schemas/silence"
	"github.com/unloop/unloop/schemas/status"
)

var noon = time.Date(2026, 5, 22, 12, 0, 0, 0, time.UTC)

// data describes a loop of a policy that was seen last at noon.
func data(id, policy string) event.Data {
	return event.Data{
		LoopID: id, Policy: policy, Detector: "prompt", Mode: event.ModeEnforce, Action: "reject", HitCount: 6, Threshold: 5, WindowSeconds: 60,
		Caller: "ca11", FirstSeen: noon.Add(-time.Minute), LastSeen: noon, Saved: event.Saved{Requests: 2, InputTokens: 100},
	}
}

func incident(id, policy string) openloop.Record {
	return openloop.Record{Data: data(id, policy), Tenant: "acme", Ends: noon.Add(time.Minute)}
}

func body(t *testing.T, v any) []byte {
	t.Helper()
	if loop, ok := v.(openloop.Record); ok {
		return loop.Append(nil)
	}
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func published(t *testing.T, typ event.Type, at time.Time, d event.Data) []byte {
	t.Helper()
	e := event.New(typ, d.LoopID+"."+string(typ), at)
	e.TenantID, e.Data = "acme", d
	return body(t, e)
}

// states are the states of loops by their ids.
func states(loops []Loop) map[string]string {
	all := map[string]string{}
	for _, l := range loops {
		all[l.LoopID] = l.State
	}
	return all
}

// A loop is open while its record stands, and past afterwards with what the record said.
func TestALoopGoesFromItsRecordToThePast(t *testing.T) {
	t.Parallel()
	b := New()
	b.Incidents.Put("live.p.1", body(t, incident("l1", "p")))
	b.History.Add(7, published(t, event.Detected, noon, data("l1", "p")))
	loops, omitted := b.Loops(Filter{}, noon)
	if len(loops) != 1 || omitted || loops[0].State != Open || loops[0].Tenant != "acme" || loops[0].Severity != "critical" || !loops[0].Ends.Equal(noon.Add(time.Minute)) {
		t.Fatalf("open: %+v", loops)
	}
	grown := incident("l1", "p")
	grown.HitCount, grown.LastSeen, grown.Saved.Requests = 60, noon.Add(time.Second), 55
	b.Incidents.Put("live.p.1", body(t, grown))
	b.Incidents.DeleteFunc(func(in Loop) bool { return in.LoopID == "l1" })
	if l, _ := b.Loop("l1", noon.Add(time.Second)); l.State != Resolved {
		t.Errorf("just released: %+v", l)
	}
	later := noon.Add(10 * time.Second)
	l, ok := b.Loop("l1", later)
	if !ok || l.State != Resolved || l.HitCount != 60 || l.Saved.Requests != 55 || !l.Ends.Equal(grown.LastSeen) {
		t.Errorf("released: %+v", l)
	}
	ended := noon.Add(20 * time.Second)
	b.History.Add(8, published(t, event.Resolved, ended, grown.Data))
	if l, _ := b.Loop("l1", later); l.State != Resolved || !l.Ends.Equal(ended) {
		t.Errorf("resolved: %+v", l)
	}
	b.History.Add(9, published(t, event.Ongoing, ended, data("l1", "p")))
	if l, _ := b.Loop("l1", later); l.State != Resolved {
		t.Errorf("an event that came late opened the loop again: %+v", l)
	}
	if _, ok := b.Loop("l2", later); ok {
		t.Error("an unknown loop was found")
	}
}

func TestLoopsAndTheirFindingsHaveTitles(t *testing.T) {
	t.Parallel()
	for _, k := range append(finding.Catalogue(), finding.Kind{Detector: "of a newer detector"}) {
		in := incident("l1", "p")
		in.Detector, in.Findings = k.Detector, []event.Finding{{Detector: k.Detector, Rule: k.Rule, Action: in.Action, Tool: "ls"}}
		b := New()
		b.Incidents.Put("live.p.1", body(t, in))
		want := in.Findings[0].Facts().Title()
		if l, _ := b.Loop("l1", noon); l.Title != want || l.Findings[0].Title != want || want == "" {
			t.Errorf("%s %s: %+v, want %q", k.Detector, k.Rule, l, want)
		}
	}
}

func TestALoopWhoseRecordIsOnItsWayIsOpen(t *testing.T) {
	t.Parallel()
	b := New()
	b.History.Add(1, published(t, event.Detected, noon, data("l1", "p")))
	if l, _ := b.Loop("l1", noon.Add(time.Second)); l.State != Open {
		t.Errorf("at once: %+v", l)
	}
	if n, later := b.OpenLoops(noon.Add(time.Second)), b.OpenLoops(noon.Add(time.Minute)); n != 1 || later != 0 {
		t.Errorf("%d open loops at once and %d a minute later, want 1 and 0", n, later)
	}
	if l, _ := b.Loop("l1", noon.Add(time.Minute)); l.State != Resolved {
		t.Errorf("a minute later: %+v", l)
	}
	b.Incidents.Put("live.p.1", body(t, incident("l2", "p")))
	if got := states(first(b.Loops(Filter{State: Open}, noon.Add(2*time.Minute)))); len(got) != 0 {
		t.Errorf("a record outlived its loop: %v", got)
	}
}

func first(loops []Loop, _ bool) []Loop { return loops }

func TestLoopsAreFilteredAndSorted(t *testing.T) {
	t.Parallel()
	b := New()
	for i, policy := range []string{"a", "b", "a"} {
		in := incident(fmt.Sprint("l", i), policy)
		in.LastSeen = noon.Add(time.Duration(i) * time.Second)
		b.Incidents.Put(fmt.Sprint("k", i), body(t, in))
	}
	old := data("old", "a")
	old.LastSeen = noon.Add(-2 * time.Hour)
	b.History.Add(1, published(t, event.Resolved, noon.Add(-2*time.Hour), old))
	ids := func(f Filter) (ids []string) {
		for _, l := range first(b.Loops(f, noon)) {
			ids = append(ids, l.LoopID)
		}
		return ids
	}
	for name, c := range map[string]struct {
		filter Filter
		want   []string
	}{
		"all":        {Filter{}, []string{"l2", "l1", "l0", "old"}},
		"a policy":   {Filter{Policy: "a"}, []string{"l2", "l0", "old"}},
		"open ones":  {Filter{Policy: "a", State: Open}, []string{"l2", "l0"}},
		"recent":     {Filter{Since: noon.Add(-time.Hour)}, []string{"l2", "l1", "l0"}},
		"a tenant":   {Filter{Tenant: "globex"}, nil},
		"a caller":   {Filter{Caller: "ca11", State: Resolved}, []string{"old"}},
		"a detector": {Filter{Detector: "tool"}, nil},
	} {
		if diff := cmp.Diff(c.want, ids(c.filter)); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}

func TestSilencedLoopsSaySo(t *testing.T) {
	t.Parallel()
	b := New()
	b.Incidents.Put("k1", body(t, incident("l1", "a")))
	b.Incidents.Put("k2", body(t, incident("l2", "b")))
	b.Silences.Put("s1", body(t, silence.Silence{ID: "s1", Matchers: map[string][]string{"policy": {"a"}, "tenant": {"acme"}}, Start: noon, End: noon.Add(time.Hour)}))
	for _, l := range first(b.Loops(Filter{}, noon)) {
		if silenced := !l.SilencedUntil.IsZero(); silenced != (l.LoopID == "l1") {
			t.Errorf("%s: silenced until %s", l.LoopID, l.SilencedUntil)
		}
	}
}

func TestRecordsAreBounded(t *testing.T) {
	t.Parallel()
	changes := 0
	r := newRecords[int](3, func() { changes++ })
	var removed []int
	var evicted []string
	r.removed = func(n int) { removed = append(removed, n) }
	r.evicted = func(key string, _ int) { evicted = append(evicted, key) }
	for i := range 5 {
		r.Put(fmt.Sprint(i), fmt.Append(nil, i))
	}
	r.Put("2", []byte("20"))
	r.Put("bad", []byte("{"))
	all, omitted := r.All()
	if diff := cmp.Diff([]int{20, 4}, all); diff != "" || !omitted || changes != 7 {
		t.Errorf("%v, omitted %t after %d changes", all, omitted, changes)
	}
	r.Put("2", []byte(strings.Repeat("9", maxRecord+1)))
	r.Delete("none")
	if all, _ := r.All(); !slices.Equal(all, []int{4}) {
		t.Errorf("%v: a value over the limit stayed", all)
	}
	if !slices.Equal(removed, []int{20}) || !slices.Equal(evicted, []string{"0", "1", "3"}) {
		t.Errorf("removed %v, evicted %v", removed, evicted)
	}
	r.Replace([]Entry{{"a", []byte("1")}, {"b", []byte("2")}})
	if all, omitted := r.All(); !slices.Equal(all, []int{2, 1}) || omitted {
		t.Errorf("replaced by %v, omitted %t", all, omitted)
	}
}

func TestTheHistoryIsBounded(t *testing.T) {
	t.Parallel()
	h := newHistory(func() {})
	for i := range maxLoops + 10 {
		h.Add(uint64(i+1), published(t, event.Detected, noon, data(fmt.Sprint("l", i), "p")))
	}
	if n := len(h.Loops()); n != maxLoops {
		t.Errorf("%d loops", n)
	}
	if n := len(h.events); n < maxEvents || n > 2*maxEvents {
		t.Errorf("%d events", n)
	}
	last := uint64(maxLoops + 10)
	items, missed := h.After(last - 2)
	if len(items) != 2 || missed || items[1].Sequence != last || h.Last() != last {
		t.Errorf("%d items, missed %t", len(items), missed)
	}
	if _, missed := h.After(3); !missed {
		t.Error("events that are gone were not missed")
	}
	if newest := h.Newest(3); len(newest) != 3 || newest[0].Sequence != last {
		t.Errorf("newest: %d", newest[0].Sequence)
	}
	h.Reset()
	if h.Last() != 0 || len(h.Loops()) != 0 {
		t.Error("something is left")
	}
}

func TestWhatIsNoEventIsLeftOut(t *testing.T) {
	t.Parallel()
	h := newHistory(func() { t.Error("changed") })
	for _, text := range []string{
		"", "{}", `{"type":"loop.detected","id":"i","data":{}}`, `{"type":"loop.other\n\nevent: x","id":"i","data":{"loop_id":"l"}}`,
		`{"type":"loop.detected","id":"i","data":{"loop_id":"` + strings.Repeat("l", maxBody) + `"}}`,
	} {
		h.Add(1, []byte(text))
	}
	h.Keep(Loop{}, true)
	if len(h.Loops()) != 0 {
		t.Errorf("loops %+v", h.Loops())
	}
}

func TestStatsCountLoopsAndSavings(t *testing.T) {
	t.Parallel()
	usd := 0.5
	loops := []Loop{
		{State: Open, Data: event.Data{LoopID: "1", Policy: "a", Caller: "x", Mode: "enforce", FirstSeen: noon, HitCount: 6, Saved: event.Saved{Requests: 2, InputTokens: 10, USD: &usd}}},
		{State: Resolved, Data: event.Data{LoopID: "2", Policy: "a", Caller: "y", Mode: "shadow", FirstSeen: noon, HitCount: 4}},
		{State: Resolved, Data: event.Data{LoopID: "3", Policy: "b", Mode: "enforce", FirstSeen: noon.Add(-2 * time.Hour), HitCount: 8, Saved: event.Saved{Requests: 3, InputTokens: 30}}},
	}
	s := Summarize(loops, noon.Add(-time.Hour), noon)
	if s.Open != 1 || s.Detected != 2 || s.Enforced != 1 || s.Hits != 18 || s.Saved.Requests != 5 || *s.Saved.USD != 0.5 || s.Saved.Unpriced != 3 {
		t.Errorf("stats %+v", s)
	}
	if len(s.Policies) != 2 || s.Policies[0].Name != "b" || s.Policies[1].Loops != 2 || len(s.Callers) != 2 || s.Callers[0].Name != "x" {
		t.Errorf("policies %+v, callers %+v", s.Policies, s.Callers)
	}
	var many []Loop
	for i := range 50 {
		many = append(many, Loop{Data: event.Data{Policy: fmt.Sprint(i)}})
	}
	if top := Summarize(many, noon, noon).Policies; len(top) != maxTop {
		t.Errorf("%d policies", len(top))
	}
}

func TestPartsThatCeaseToAnswerAreSilentAndThenForgotten(t *testing.T) {
	t.Parallel()
	var f Fleet
	gateway := status.Status{Service: "gateway", ID: "g", Host: "h", Ready: true, Bundle: &status.Bundle{Version: "7-aa", Source: "pushed"}}
	f.Heard([]status.Status{{Service: "detector", ID: "d", Reason: "starting"}, gateway, {Service: "no id"}}, noon)
	all := f.All()
	if len(all) != 2 || all[0].State != NotReady || all[1].State != Ready {
		t.Fatalf("parts %+v", all)
	}
	if in := Bundles(all); len(in) != 1 || in[0].Version != "7-aa" || in[0].Gateways[0].Host != "h" {
		t.Errorf("bundles %+v", in)
	}
	f.Heard([]status.Status{gateway}, noon.Add(time.Minute))
	if all := f.All(); all[0].State != Silent || !all[0].Heard.Equal(noon) {
		t.Errorf("parts %+v", all)
	}
	f.Heard(nil, noon.Add(forgetAfter+time.Second))
	all = f.All()
	if len(all) != 1 || all[0].ID != "g" || len(Bundles(all)) != 0 {
		t.Errorf("parts %+v", all)
	}
	var flood []status.Status
	for i := range maxParts + 5 {
		flood = append(flood, status.Status{ID: fmt.Sprint(i)})
	}
	f.Heard(flood, noon)
	if n := len(f.All()); n != maxParts {
		t.Errorf("%d parts", n)
	}
}

func TestThePushedBundle(t *testing.T) {
	t.Parallel()
	b := New()
	if v, at, fault := b.Bundle.Get(); v+fault != "" || !at.IsZero() {
		t.Errorf("at first %q %q %s", v, fault, at)
	}
	b.Bundle.Set([]byte("bundle_version: 7\npolicies: [{id: p, spec: {prompt: {}}}]\n"), noon)
	if v, at, fault := b.Bundle.Get(); !strings.HasPrefix(v, "7-") || fault != "" || !at.Equal(noon) {
		t.Errorf("pushed %q %q %s", v, fault, at)
	}
	b.Bundle.Set([]byte("secret: ["), noon)
	if v, _, fault := b.Bundle.Get(); v != "" || fault == "" || strings.Contains(fault, "secret") {
		t.Errorf("broken %q %q", v, fault)
	}
}

func TestChangesAreTold(t *testing.T) {
	t.Parallel()
	b := New()
	before, news := b.Versions()
	b.Overrides.Put("k", []byte("{}"))
	<-news
	now, _ := b.Versions()
	if diff := cmp.Diff([]Part{PartOverrides}, now.Changed(before)); diff != "" || PartOverrides.String() != "overrides" {
		t.Error(diff)
	}
}
