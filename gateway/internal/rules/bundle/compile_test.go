package bundle_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/unloop/unloop/gateway/internal/rules/bundle"
	"github.com/unloop/unloop/schemas/policy"
)

// samples are the valid bundles of the contract, by name.
func samples(t testing.TB) map[string][]byte {
	t.Helper()
	files, err := filepath.Glob("../../../../schemas/policy/testdata/valid/*")
	if err != nil || len(files) == 0 {
		t.Fatalf("no sample bundles: %v", err)
	}
	found := map[string][]byte{}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		found[filepath.Base(file)] = data
	}
	return found
}

func mustCompile(t testing.TB, text string) *bundle.Set {
	t.Helper()
	b, err := policy.Parse([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	s, err := bundle.Compile(b)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// onePolicy is a bundle whose only policy has the given spec.
func onePolicy(spec string) string {
	return "bundle_version: 1\npolicies:\n- id: p\n  spec: " + spec + "\n"
}

func fullSet(t *testing.T) *bundle.Set {
	t.Helper()
	return mustCompile(t, string(samples(t)["full.yaml"]))
}

func env(pairs ...string) func(string) string {
	return func(name string) string {
		for i := 0; i < len(pairs); i += 2 {
			if pairs[i] == name {
				return pairs[i+1]
			}
		}
		return ""
	}
}

func mustDefault(t *testing.T, getenv func(string) string) *bundle.Policy {
	t.Helper()
	b, err := policy.Default(getenv)
	if err != nil {
		t.Fatal(err)
	}
	s, err := bundle.Compile(b)
	if err != nil {
		t.Fatal(err)
	}
	return s.ByID("default")
}

func TestSamplesParseAndCompile(t *testing.T) {
	t.Parallel()
	for name, data := range samples(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b, err := policy.Parse(data)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := bundle.Compile(b); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestCompiledPolicyHasEffectiveValues(t *testing.T) {
	t.Parallel()
	p := fullSet(t).ByID("full")
	if !p.FailClosed || !p.SessionRepair || !p.IncludeExcerpt || p.Hint.Position != "result" {
		t.Errorf("settings: %+v", p)
	}
	if got := []string{p.LimitKeys[0].String(), p.LimitKeys[1].String()}; !cmp.Equal(got, []string{"model", "project"}) {
		t.Errorf("limit keys %v", got)
	}
	if c := p.Rules[0].Conditions; len(c) != 1 || c[0].Descriptor.String() != "tenant" || c[0].Value != "acme" {
		t.Errorf("conditions %+v", c)
	}
	if p.Fallback.Name != "rest" || p.Fallback.TokenBucketLLM.DefaultCompletion() != 5 || p.Fallback.TokenBucketLLM.Burst() != 1000 {
		t.Errorf("fallback %+v", p.Fallback.Rule)
	}
	if p.Rules[0].CostBased.PeriodSeconds() != 7*24*3600 {
		t.Errorf("period %d", p.Rules[0].CostBased.PeriodSeconds())
	}
}

func TestLimitKeysAreThoseOfAllRulesOnce(t *testing.T) {
	t.Parallel()
	rule := "{name: NAME, limit_keys: [KEYS], algorithm: token_bucket, algorithm_config: {rps: 1, burst: 1}}"
	named := func(name, keys string) string { return strings.NewReplacer("NAME", name, "KEYS", keys).Replace(rule) }
	p := mustCompile(t, onePolicy("{rules: ["+named("a", "'header:X-Tool', caller")+","+named("b", "caller, 'jwt:org_id'")+"]}")).Policies()[0]
	var got []string
	for _, d := range p.LimitKeys {
		got = append(got, d.String())
	}
	if !cmp.Equal(got, []string{"caller", "header:x-tool", "jwt:org_id"}) {
		t.Errorf("limit keys %v", got)
	}
}

func TestKillSwitches(t *testing.T) {
	t.Parallel()
	s := fullSet(t)
	end := time.Date(2026, 5, 2, 0, 0, 0, 0, time.UTC)
	if !s.KillSwitchesOff(end.Add(-time.Second)) || s.KillSwitchesOff(end) {
		t.Error("the override does not end at its expires_at")
	}
	if k := s.KillSwitches[0]; k.Scope != (policy.Descriptor{Source: "tenant"}) || k.ScopeValue != "acme" || k.Reason != "unpaid" || !k.ActiveAt(end) {
		t.Errorf("first kill switch %+v", k)
	}
	if k := s.KillSwitches[1]; !k.ActiveAt(end.Add(-time.Second)) || k.ActiveAt(end) {
		t.Error("a kill switch does not end at its expires_at")
	}
}

func TestPriceOfTheMostParticularGlobCounts(t *testing.T) {
	t.Parallel()
	s := fullSet(t)
	for model, want := range map[string]float64{"gpt-4o": 2.5, "gpt-4o-2024": 2.5, "gpt-4o-mini": 0.15, "claude": 1} {
		if p, ok := s.Price(model); !ok || p.Input != want {
			t.Errorf("%s costs %v", model, p.Input)
		}
	}
	if _, ok := mustCompile(t, onePolicy("{}")).Price("my-own-model"); ok {
		t.Error("a bundle without prices has one, for a model that the built-in table does not know")
	}
}

func TestCircuitBreakerTakesCostAndKeyOfTheFirstRule(t *testing.T) {
	t.Parallel()
	b, err := policy.Parse([]byte(`
bundle_version: 1
policies:
  - id: a
    spec:
      circuit_breaker: {enabled: true, spend_rate_threshold_per_minute: 1000, auto_reset_after_minutes: 0.01}
      rules:
        - {name: r, limit_keys: [tenant, caller], algorithm: token_bucket, algorithm_config: {rps: 1, burst: 1}}
        - {name: s, limit_keys: [model], algorithm: token_bucket, algorithm_config: {rps: 1, burst: 1}}
  - {id: b, spec: {circuit_breaker: {enabled: true, spend_rate_threshold_per_minute: 5}}}
  - {id: c, spec: {circuit_breaker: {enabled: false}}}
`))
	if err != nil {
		t.Fatal(err)
	}
	set, err := bundle.Compile(b)
	if err != nil {
		t.Fatal(err)
	}
	if breaker := set.ByID("a").Breaker; breaker.Key.String() != "tenant" || breaker.Cost.Name != "r" || breaker.ResetSeconds() != 1 {
		t.Errorf("%+v", breaker)
	}
	if breaker := set.ByID("b").Breaker; breaker.Cost != nil || breaker.Key != (policy.Descriptor{}) || breaker.ResetSeconds() != 0 {
		t.Errorf("without rules: %+v", breaker)
	}
	if set.ByID("c").Breaker != nil {
		t.Error("one that is off")
	}
}

func TestFairvisorMatchesNothingWithoutAPath(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]int{
		`{bundle_version: 1, compat: [fairvisor], policies: [{id: a, spec: {}}]}`:                                     0,
		`{bundle_version: 1, compat: [fairvisor], policies: [{id: a, spec: {selector: {methods: [POST]}}}]}`:          0,
		`{bundle_version: 1, compat: [fairvisor], policies: [{id: a, spec: {selector: {pathPrefix: /}}}]}`:            1,
		`{bundle_version: 1, compat: [fairvisor], policies: [{id: a, spec: {selector: {pathExact: /v1/responses}}}]}`: 1,
		`{bundle_version: 1, policies: [{id: a, spec: {}}]}`:                                                          1,
	} {
		b, err := policy.Parse([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		set, err := bundle.Compile(b)
		if err != nil {
			t.Fatal(err)
		}
		if got := set.Match(&bundle.Request{Method: "POST", Path: "/v1/responses"}); len(got) != want {
			t.Errorf("%s: %d policies match", text, len(got))
		}
	}
}

func TestDefaultWatchesPromptsWithFourDetectors(t *testing.T) {
	t.Parallel()
	for _, getenv := range []func(string) string{nil, env()} {
		p := mustDefault(t, getenv)
		if p.LoopDetection != nil || len(p.Rules) > 0 || p.FailClosed || p.SessionRepair || p.IncludeExcerpt {
			t.Errorf("more than the four detectors: %+v", p)
		}
		if diff := cmp.Diff([]any{policy.DefaultPrompt(), policy.DefaultTool(), policy.DefaultCycle(), policy.DefaultSemantic()},
			[]any{p.Prompt, p.Tool, p.Cycle, p.Semantic}); diff != "" {
			t.Error(diff)
		}
		if p.Hint.Text != policy.DefaultHint {
			t.Errorf("hint %q", p.Hint.Text)
		}
	}
}

func TestDefaultAppliesToPostsOnly(t *testing.T) {
	t.Parallel()
	b, err := policy.Default(nil)
	if err != nil {
		t.Fatal(err)
	}
	s, err := bundle.Compile(b)
	if err != nil {
		t.Fatal(err)
	}
	if n := len(s.Match(&bundle.Request{Method: "POST", Path: "/openai/deployments/x/chat/completions"})); n != 1 {
		t.Errorf("%d policies for a POST", n)
	}
	if n := len(s.Match(&bundle.Request{Method: "GET", Path: "/v1/models"})); n != 0 {
		t.Errorf("%d policies for a GET", n)
	}
}

func TestEnvironmentTurnsDetectorsOff(t *testing.T) {
	t.Parallel()
	p := mustDefault(t, env("LOOP_GUARD_MAX_HITS", "0"))
	if p.Prompt != nil || p.Tool == nil || p.Cycle == nil || p.Semantic == nil {
		t.Errorf("LOOP_GUARD_MAX_HITS=0 turns the prompt detector off, and no other: %+v", p)
	}
	p = mustDefault(t, env("LOOP_DETECTION_ENABLED", "false"))
	if p.Prompt != nil || p.Tool != nil || p.Cycle != nil || p.Semantic != nil {
		t.Errorf("LOOP_DETECTION_ENABLED=false turns all off: %+v", p)
	}
}

// A prompt detector that is turned off is not merely absent: no other one takes its
// place.
func TestPromptDetectorThatIsTurnedOffIsKnown(t *testing.T) {
	t.Parallel()
	for hits, want := range map[string]bool{"": false, "5": false, "0": true} {
		if p := mustDefault(t, env("LOOP_GUARD_MAX_HITS", hits)); p.PromptOff != want || (p.Prompt == nil) != want || p.Semantic == nil {
			t.Errorf("LOOP_GUARD_MAX_HITS=%q: off %t, want %t", hits, p.PromptOff, want)
		}
	}
}

func TestBundleMadeInGoIsCheckedBeforeItCompiles(t *testing.T) {
	t.Parallel()
	spec := policy.DefaultSpec()
	spec.Prompt = &policy.Prompt{Enabled: true, MaxHits: 1}
	b := &policy.Bundle{BundleVersion: 1, Policies: []policy.Entry{{ID: "p", Spec: spec}}}
	_, err := bundle.Compile(b)
	var faults *policy.Faults
	if !errors.As(err, &faults) || faults.List[0].Field != "policies[0].spec.prompt.window_seconds" {
		t.Errorf("a prompt detector without window compiled: %v", err)
	}
	b.Policies[0].Spec.Prompt = policy.DefaultPrompt()
	if _, err := bundle.Compile(b); err != nil {
		t.Error(err)
	}
}

func BenchmarkParseAndCompile(b *testing.B) {
	var text strings.Builder
	text.WriteString("bundle_version: 1\npolicies:\n")
	for i := range 1000 {
		fmt.Fprintf(&text, "- {id: p%d, spec: {selector: {pathPrefix: /v1/, tenant: t%d}, prompt: {max_hits: 3}, tool: {}, "+
			"rules: [{name: r, limit_keys: [caller], algorithm: token_bucket, algorithm_config: {rps: 1, burst: 2}}]}}\n", i, i)
	}
	for b.Loop() {
		parsed, err := policy.Parse([]byte(text.String()))
		if err != nil {
			b.Fatal(err)
		}
		if _, err := bundle.Compile(parsed); err != nil {
			b.Fatal(err)
		}
	}
}

// FuzzCompile: what Parse accepts compiles and can be matched.
func FuzzCompile(f *testing.F) {
	for _, data := range samples(f) {
		f.Add(data)
	}
	f.Add([]byte(onePolicy("{selector: {headers: {a: ''}, models: ['*', '?'], pathPrefix: /}}")))
	f.Fuzz(func(t *testing.T, data []byte) {
		b, err := policy.ParseTolerant(data)
		if err != nil {
			return
		}
		set, err := bundle.Compile(b)
		if err != nil {
			t.Fatalf("accepted, but does not compile: %v", err)
		}
		set.Match(&bundle.Request{Method: "POST", Path: "/v1/messages", Model: "m", Header: func(string) string { return "h" }})
	})
}

func TestMeteredRules(t *testing.T) {
	t.Parallel()
	const budget = "budget: 9, period: 1d, staged_actions: [{threshold_percent: 100, action: reject}]"
	for name, c := range map[string]struct {
		rule string
		want bool
	}{
		"requests": {"algorithm: token_bucket, algorithm_config: {rps: 1, burst: 1}", false},
		"tokens":   {"algorithm: token_bucket_llm, algorithm_config: {tokens_per_minute: 1}", true},
		"dollars":  {"algorithm: cost_based, algorithm_config: {" + budget + ", cost_key: usd}", true},
		"units":    {"algorithm: cost_based, algorithm_config: {" + budget + "}", false},
	} {
		p := mustCompile(t, onePolicy("{rules: [{name: r, limit_keys: [caller], "+c.rule+"}]}")).Policies()[0]
		if got := p.Rules[0].Metered(); got != c.want {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}

func TestASetHasTheVersionOfItsBundle(t *testing.T) {
	t.Parallel()
	b, err := policy.Parse([]byte(onePolicy("{}")))
	if err != nil {
		t.Fatal(err)
	}
	want, err := b.Version()
	if err != nil {
		t.Fatal(err)
	}
	if got := mustCompile(t, onePolicy("{}")).Version(); got != want {
		t.Errorf("version %s, want %s", got, want)
	}
}
