package explain

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/unloop/unloop/gateway/internal/decide/evidence"
	"github.com/unloop/unloop/gateway/internal/rules/bundle"
	"github.com/unloop/unloop/gateway/internal/wire/provider"
	"github.com/unloop/unloop/gateway/internal/wire/request"
	"github.com/unloop/unloop/gateway/internal/wire/route"
	"github.com/unloop/unloop/schemas/checkpb"
	"github.com/unloop/unloop/schemas/policy"
)

func compile(t *testing.T, text string) *bundle.Set {
	t.Helper()
	b, err := policy.Parse([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	set, err := bundle.Compile(b)
	if err != nil {
		t.Fatal(err)
	}
	return set
}

const policies = `
bundle_version: 1
policies:
  - id: p
    spec:
      failure_mode: closed
      reject: 403
      prompt: {}
      semantic: {min_matches: 2}
  - {id: elsewhere, spec: {selector: {methods: [GET]}, prompt: {}}}
`

// asked is a request that policy p evaluates in every way.
func asked(set *bundle.Set) *Case {
	dollars := &policy.Rule{Name: "budget", Algorithm: "cost_based", CostBased: &policy.CostBased{CostKey: "usd"}}
	return &Case{
		Policies: set,
		Request:  &request.Request{Method: "POST", Path: "/v1/chat/completions", Header: map[string][]string{}, Target: route.Target{Upstream: "openai"}, Prompt: &provider.Prompt{Model: "nobody-prices-it"}},
		Subject:  &request.Subject{Identity: &checkpb.Identity{Caller: "c"}},
		Evidence: evidence.Evidence{
			At: time.Unix(1_000_000, 0),
			Check: &checkpb.Check{
				Counters:  []*checkpb.Counter{{Policy: "elsewhere"}, {Policy: "p", Detector: "prompt", Fingerprint: []byte{1}, Threshold: 6, WindowSeconds: 60}},
				Watches:   []*checkpb.ToolWatch{{Policy: "p"}, {Policy: "elsewhere"}},
				Semantics: []*checkpb.SemanticWatch{{Policy: "elsewhere"}, {Policy: "p"}},
			},
			Limits: []evidence.Limit{
				{Rule: &bundle.Limit{Rule: dollars}, Wire: &checkpb.Limit{Policy: "p", Rule: "budget", Cost: 2}},
				{Rule: &bundle.Limit{Rule: dollars}, Wire: &checkpb.Limit{Policy: "elsewhere"}},
			},
			Skipped: []evidence.Skipped{
				{Policy: "p", Rule: &bundle.Limit{Rule: &policy.Rule{Name: "by org", Algorithm: "token_bucket"}}, Missing: "header:x-org"},
				{Policy: "elsewhere", Rule: &bundle.Limit{Rule: dollars}},
			},
		},
	}
}

func TestEachDetectorAndRuleIsExplained(t *testing.T) {
	t.Parallel()
	set := compile(t, policies)
	c := asked(set)
	comparison := "2 of the session's last 5 exchanges must be more similar than 0.95"
	want := []Policy{{
		ID: "p", FailClosed: true, Reject: "403",
		Detectors: []Detector{
			{Detector: "prompt", Fingerprint: "01", Threshold: 6, WindowSeconds: 60, Rate: 0.1, Would: "allow"},
			{Detector: "tool, cycle", Would: "allow"},
			{Detector: "semantic", Would: "allow", Message: comparison},
		},
		Rules: []Rule{
			{Rule: "budget", Algorithm: "cost_based", Cost: 2, Price: "default_cost, since nothing prices the model", Would: "allow"},
			{Rule: "by org", Algorithm: "token_bucket", Missing: "header:x-org", Would: "allow"},
		},
	}}
	if diff := cmp.Diff(want, Policies(c)); diff != "" {
		t.Errorf("not asked (-want +got):\n%s", diff)
	}

	c.Decision = &checkpb.Decision{
		HitCounts: []uint32{1, 7},
		Findings: []*checkpb.Finding{
			{Policy: "p", Detector: "prompt", Fingerprint: []byte{1}, Action: checkpb.Action_ACTION_REJECT, HitCount: 7},
			{Policy: "p", Detector: "prompt", Fingerprint: []byte{2}, Action: checkpb.Action_ACTION_BREAK},
			{Policy: "p", Detector: "cycle", Action: checkpb.Action_ACTION_HINT, HitCount: 3, Message: "goes round"},
			{Policy: "p", Detector: "tool", Action: checkpb.Action_ACTION_WARN, HitCount: 9, Message: "again"},
			{Policy: "p", Detector: "semantic", Action: checkpb.Action_ACTION_HINT, HitCount: 2, Message: "says the same"},
			{Policy: "elsewhere", Detector: "semantic", Action: checkpb.Action_ACTION_BREAK},
		},
		Limits: []*checkpb.LimitVerdict{{Limit: 10, Remaining: 8, Action: checkpb.Action_ACTION_WARN}},
	}
	want[0].Detectors[0].Count, want[0].Detectors[0].Would = 7, "reject"
	want[0].Detectors[1] = Detector{Detector: "cycle", Would: "hint", Message: "goes round", Count: 3}
	want[0].Detectors[2] = Detector{Detector: "semantic", Would: "hint", Message: "says the same", Count: 2}
	want[0].Rules[0].Limit, want[0].Rules[0].Remaining, want[0].Rules[0].Would = 10, 8, "warn"
	if diff := cmp.Diff(want, Policies(c)); diff != "" {
		t.Errorf("asked (-want +got):\n%s", diff)
	}
}

func TestWithoutAPolicyThereIsNothingToExplain(t *testing.T) {
	t.Parallel()
	c := asked(compile(t, "bundle_version: 1\npolicies: []\n"))
	if got := Policies(c); got == nil || len(got) != 0 {
		t.Errorf("explained %+v", got)
	}
}
