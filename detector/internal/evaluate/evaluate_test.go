package evaluate_test

import (
	"crypto/sha256"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/testing/protocmp"

	"github.com/unloop/unloop/detector/internal/evaluate"
	"github.com/unloop/unloop/detector/internal/incident"
	"github.com/unloop/unloop/schemas/checkpb"
	"github.com/unloop/unloop/schemas/event"
	"github.com/unloop/unloop/schemas/openloop"
	"github.com/unloop/unloop/schemas/semanticpb"
)

const (
	allow    = checkpb.Action_ACTION_ALLOW
	warn     = checkpb.Action_ACTION_WARN
	hint     = checkpb.Action_ACTION_HINT
	throttle = checkpb.Action_ACTION_THROTTLE
	reject   = checkpb.Action_ACTION_REJECT
	stop     = checkpb.Action_ACTION_BREAK
)

var noon = time.Date(2026, 5, 22, 12, 0, 0, 0, time.UTC)

// hash is a digest of 32 bytes.
func hash(of string) []byte {
	sum := sha256.Sum256([]byte(of))
	return sum[:]
}

// part is what evaluates one part of a check.
type part[S any] interface {
	Key() string
	Access() evaluate.Access
	Step(s S, now time.Time) (S, time.Duration)
	Result() evaluate.Result
}

// run evaluates parts one after the other, a second apart, on one record.
func run[S any](s S, parts ...part[S]) (S, []evaluate.Result) {
	var results []evaluate.Result
	for i, p := range parts {
		next, ttl := p.Step(s, noon.Add(time.Duration(i)*time.Second))
		if p.Access() == evaluate.Write && ttl > 0 {
			s = next
		}
		results = append(results, p.Result())
	}
	return s, results
}

func TestADecisionHasAllResultsAndTheStrongestAction(t *testing.T) {
	t.Parallel()
	limits := []*checkpb.Limit{{Policy: "p"}, {Policy: "shadow", Shadow: true}}
	finding := func(action checkpb.Action, shadow bool) []*checkpb.Finding {
		return []*checkpb.Finding{{Action: action, Shadow: shadow}}
	}
	report := &checkpb.ToolReport{Policy: "p", Total: 3}
	d, err := evaluate.Conclude(limits, []evaluate.Result{
		{Limit: &checkpb.LimitVerdict{Action: warn}},
		{Limit: &checkpb.LimitVerdict{Action: reject}, Err: errors.New("rule")},
		{Hits: 3, Findings: finding(throttle, false)},
		{Hits: 4, Findings: finding(stop, true), Tools: report},
		{Err: evaluate.ErrMalformed},
	})
	want := &checkpb.Decision{
		Action: throttle, HitCounts: []uint32{3, 4, 0}, ToolReports: []*checkpb.ToolReport{report},
		Limits:   []*checkpb.LimitVerdict{{Action: warn}, {Action: reject}},
		Findings: []*checkpb.Finding{{Action: throttle}, {Action: stop, Shadow: true}},
	}
	if diff := cmp.Diff(want, d, protocmp.Transform()); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if !errors.Is(err, evaluate.ErrMalformed) || !strings.Contains(err.Error(), "rule") {
		t.Errorf("error %v", err)
	}
}

// The step of a part depends on nothing that stands in another part.
func TestPartOfACheckHasOnePartAndItsRequest(t *testing.T) {
	t.Parallel()
	check := &checkpb.Check{
		RequestId: "r", Identity: &checkpb.Identity{Tenant: "t"}, Hits: 3, Exchange: &semanticpb.Exchange{Said: "text"}, Limits: []*checkpb.Limit{{Rule: "a"}}, Semantics: []*checkpb.SemanticWatch{{}},
		Counters: []*checkpb.Counter{{Policy: "b"}, {Policy: "c"}}, Watches: []*checkpb.ToolWatch{{Policy: "d"}},
	}
	if n := evaluate.Parts(check); n != 4 {
		t.Fatalf("%d parts", n)
	}
	for i, want := range []*checkpb.Check{
		{Limits: check.GetLimits()}, {Counters: check.GetCounters()[:1]}, {Counters: check.GetCounters()[1:]}, {Watches: check.GetWatches()},
	} {
		want.RequestId, want.Identity, want.Hits = "r", check.GetIdentity(), 3
		if diff := cmp.Diff(want, evaluate.PartOf(check, i), protocmp.Transform()); diff != "" {
			t.Errorf("part %d (-want +got):\n%s", i, diff)
		}
	}
}

func TestNamesOfACheckAreBounded(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 257)
	for name, check := range map[string]*checkpb.Check{
		"session":  {Identity: &checkpb.Identity{Session: long}},
		"counter":  {Counters: []*checkpb.Counter{{Fingerprint: []byte(long)}}},
		"watch":    {Watches: []*checkpb.ToolWatch{{Agent: []byte(long)}}},
		"limit":    {Limits: []*checkpb.Limit{{Rule: long}}},
		"semantic": {Semantics: []*checkpb.SemanticWatch{{Policy: long}}},
	} {
		if evaluate.Bounded(check) {
			t.Errorf("a long name of a %s was taken", name)
		}
	}
	if !evaluate.Bounded(&checkpb.Check{Identity: &checkpb.Identity{Tenant: long[:256]}}) {
		t.Error("256 bytes are short enough")
	}
}

// A request counts once in an incident, with its strongest finding; what a shadow policy
// finds saves nothing.
func TestARequestCountsOnceInAnIncident(t *testing.T) {
	t.Parallel()
	usd := 0.5
	check := &checkpb.Check{InputTokens: 10, Usd: &usd}
	var ids [5]string
	in := func(i int, policy string, action checkpb.Action, hits int) evaluate.Incident {
		return evaluate.Incident{LoopID: &ids[i], Finding: incident.Finding{Policy: policy, Action: action, Hits: hits, Shadow: policy == "shadow"}}
	}
	over := in(4, "p", reject, 1)
	over.Over = true
	ended, reports := evaluate.Reports(check, []evaluate.Result{
		{Incidents: []evaluate.Incident{over, in(0, "p", hint, 1)}},
		{Incidents: []evaluate.Incident{in(1, "shadow", reject, 1), in(2, "p", reject, 3)}},
		{Incidents: []evaluate.Incident{in(3, "p", reject, 2)}},
	})
	if len(ended) != 1 || len(reports) != 2 || len(reports[0].Findings) != 3 {
		t.Fatalf("ended %v, reports %v", ended, reports)
	}
	total := 1.5
	for i, want := range []struct {
		hits  int
		saved event.Saved
	}{{}, {3, event.Saved{Requests: 3, InputTokens: 30, USD: &total}}, {}} {
		if f := reports[0].Findings[i]; f.Hits != want.hits || !cmp.Equal(f.Saved, want.saved) {
			t.Errorf("finding %d: %d requests, saved %+v", i, f.Hits, f.Saved)
		}
	}
	if f := reports[1].Findings[0]; f.Hits != 1 || f.Saved != (event.Saved{}) {
		t.Errorf("in shadow: %d requests, saved %+v", f.Hits, f.Saved)
	}
	reports[0].Identify("loop")
	if want := [5]string{"loop", "", "loop", "loop", ""}; ids != want {
		t.Errorf("ids %q", ids)
	}
}

// The incident of a finding belongs to the session, and shows no text that the policy
// does not ask for.
func TestIncidentsOfFindings(t *testing.T) {
	t.Parallel()
	check := &checkpb.Check{
		Identity: &checkpb.Identity{Session: "no hash"}, Excerpt: &checkpb.Excerpt{Text: strings.Repeat("é", event.MaxExcerpt+1), Policies: []string{"shows"}},
		Semantics: []*checkpb.SemanticWatch{{Policy: "shows", Scope: []byte{1}, Params: []byte(`{"ttl_seconds":60}`)}, {Policy: "shows", Scope: []byte{2}}, {Policy: "other"}},
		Watches:   []*checkpb.ToolWatch{{Policy: "shows", Agent: []byte{3}, Tool: []byte(`{"ttl_seconds":90}`)}, {Policy: "shows", Shadow: true}},
		Exchange:  &semanticpb.Exchange{Answered: "text"},
	}
	fire := func(policy string) evaluate.Incident {
		c := counterOf(func(c *checkpb.Counter) { c.Policy = policy })
		_, results := run(counterState{}, counters(t, check, c, c, c)...)
		return results[2].Incidents[0]
	}
	shown := fire("shows")
	want := []openloop.Counter{
		{Detector: "semantic", Fingerprint: "01", KeptSeconds: 60}, {Detector: "semantic", Fingerprint: "02", KeptSeconds: 3600},
		{Detector: "tool", Fingerprint: "03", KeptSeconds: 90},
	}
	if diff := cmp.Diff(want, shown.Related); diff != "" || shown.Excerpt != strings.Repeat("é", event.MaxExcerpt) || len(shown.Conversation) != 64 {
		t.Errorf("incident %+v: %s", shown.Finding, diff)
	}
	if hidden := fire("hides"); hidden.Excerpt != "" || len(hidden.Related) != 0 {
		t.Errorf("incident %+v", hidden.Finding)
	}
	check.Excerpt.Text, check.Identity.Session = "short", "5e55"
	if in := fire("shows"); in.Excerpt != "short" || in.Conversation != "5e55" {
		t.Errorf("incident %+v", in.Finding)
	}
}
