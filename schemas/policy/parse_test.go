package policy_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/unloop/unloop/schemas/policy"
)

// sameBundle compares what bundles say, not how they were written.
var sameBundle = cmp.Options{cmpopts.IgnoreUnexported(policy.Bundle{}), cmpopts.EquateComparable(netip.Prefix{}), cmpopts.EquateEmpty()}

// samples are the valid bundles, by name.
func samples(t testing.TB) map[string][]byte {
	t.Helper()
	files, err := filepath.Glob("testdata/valid/*")
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

func mustParse(t testing.TB, text string) *policy.Bundle {
	t.Helper()
	b, err := policy.Parse([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// onePolicy is a bundle whose only policy has the given spec.
func onePolicy(spec string) string {
	return "bundle_version: 1\npolicies:\n- id: p\n  spec: " + spec + "\n"
}

func TestSamplesParse(t *testing.T) {
	t.Parallel()
	for name, data := range samples(t) {
		if _, err := policy.Parse(data); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestMarshalledBundleReadsTheSame(t *testing.T) {
	t.Parallel()
	for name, data := range samples(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b, err := policy.Parse(data)
			if err != nil {
				t.Fatal(err)
			}
			text, err := json.Marshal(b)
			if err != nil {
				t.Fatal(err)
			}
			again, err := policy.Parse(text)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(b, again, sameBundle); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestYAMLAndJSONReadTheSame(t *testing.T) {
	t.Parallel()
	fromYAML := mustParse(t, onePolicy(
		"{selector: {methods: [POST], models: 'a*'}, prompt: {max_hits: 2}, hint: {text: ☃ 😀}}"))
	fromJSON := mustParse(t, `{"bundle_version": 1.0, "policies": [{"id": "p", "spec": {
		"selector": {"methods": ["POST"], "models": "a*"}, "prompt": {"max_hits": 2e0}, "hint": {"text": "\u2603 \ud83d\ude00"}}}]}`)
	if diff := cmp.Diff(fromYAML, fromJSON, sameBundle); diff != "" {
		t.Error(diff)
	}
}

func TestDefaultsFillWhatIsNotSaid(t *testing.T) {
	t.Parallel()
	b := mustParse(t, onePolicy("{prompt: {}, tool: {}, cycle: {}, semantic: {}, session_repair: {}, "+
		"loop_detection: {enabled: true, window_seconds: 1, threshold_identical_requests: 2}}"))
	spec := b.Policies[0].Spec
	want := policy.DefaultSpec()
	want.Prompt, want.Tool, want.Cycle, want.Semantic = policy.DefaultPrompt(), policy.DefaultTool(), policy.DefaultCycle(), policy.DefaultSemantic()
	want.SessionRepair = &policy.SessionRepair{Enabled: true}
	want.LoopDetection = &policy.LoopDetection{
		Enabled: true, WindowSeconds: 1, Threshold: 2, Action: policy.Reject, Similarity: "exact", Scope: "caller", Window: policy.WindowRefresh,
	}
	if diff := cmp.Diff(want, spec, sameBundle); diff != "" {
		t.Error(diff)
	}
	if got := *spec.Prompt; got.MaxHits != 5 || got.WindowSeconds != 60 || got.CooldownSeconds != 30 || got.TailMessages != 3 {
		t.Errorf("the prompt detector's documented defaults are 5, 60, 30 and 3: %+v", got)
	}
}

func TestAnExplicitZeroIsNotADefault(t *testing.T) {
	t.Parallel()
	spec := mustParse(t, onePolicy("{prompt: {max_hits: 0, cooldown_seconds: 0}, semantic: {reject_after: 0, threshold: 0}}")).Policies[0].Spec
	if spec.Prompt.MaxHits != 0 || spec.Prompt.CooldownSeconds != 0 || spec.Semantic.RejectAfter != 0 || spec.Semantic.Threshold != 0 {
		t.Errorf("zeros were replaced: %+v %+v", spec.Prompt, spec.Semantic)
	}
}

func TestAnchorsAndMergeKeys(t *testing.T) {
	t.Parallel()
	b, err := policy.Parse(samples(t)["anchors.yaml"])
	if err != nil {
		t.Fatal(err)
	}
	second := b.Policies[1].Spec
	if second.Prompt.MaxHits != 3 || second.Prompt.WindowSeconds != 10 || second.Selector.Methods[0] != "POST" {
		t.Errorf("merged policy: %+v, prompt %+v", second, second.Prompt)
	}
}

func TestFairvisorBundleLoadsUnchanged(t *testing.T) {
	t.Parallel()
	b, err := policy.Parse(samples(t)["fairvisor-loop.json"])
	if err != nil {
		t.Fatal(err)
	}
	loop := b.Policies[0].Spec.LoopDetection
	if diff := cmp.Diff([]policy.Step{{At: 4, Action: policy.Throttle}}, loop.Steps()); diff != "" {
		t.Errorf("steps (-want +got):\n%s", diff)
	}
	everything, err := policy.Parse(samples(t)["fairvisor-everything.json"])
	if err != nil {
		t.Fatal(err)
	}
	rules := everything.Policies[0].Spec.Rules
	if rules[0].TokenBucket.Rate() != 10 || rules[0].Match["jwt:seats"] != "5" || rules[0].Match["jwt:trial"] != "false" {
		t.Errorf("token bucket: %+v %+v", rules[0].TokenBucket, rules[0].Match)
	}
	if llm := rules[1].TokenBucketLLM; llm.DefaultCompletion() != 512 || llm.Burst() != 90000 || llm.TokensPerDay != 1_000_000 {
		t.Errorf("token_bucket_llm: %+v", llm)
	}
	if name := everything.Policies[0].Spec.FallbackLimit.Name; name != "fallback_limit" {
		t.Errorf("the fallback's name is %q", name)
	}
	wantWarning(t, everything, "ip:country has no effect without trusted_proxies, which set X-Country-Code: the kill switch never matches")
}

func wantWarning(t *testing.T, b *policy.Bundle, message string) {
	t.Helper()
	for _, w := range b.Warnings() {
		if strings.Contains(w.Message, message) {
			return
		}
	}
	t.Errorf("no warning %q among %v", message, b.Warnings())
}

func TestToolThresholdsAreRepairedAndTheRepairIsSaid(t *testing.T) {
	t.Parallel()
	b := mustParse(t, onePolicy("{tool: {warn_threshold: 0, block_threshold: 0, max_warnings: 0, poll_multiplier: 0}}"))
	if tool := b.Policies[0].Spec.Tool; tool.WarnThreshold != 3 || tool.BlockThreshold != 5 || tool.MaxWarnings != 3 || tool.PollMultiplier != 3 {
		t.Errorf("zeros: %+v", tool)
	}
	wantWarning(t, b, "warn_threshold is 0: the default 3 is used")
	b = mustParse(t, onePolicy("{tool: {warn_threshold: 9, block_threshold: 4, outcome_warn: 3, outcome_block: 2, per_tool: [{match: x, warn_threshold: 2, block_threshold: 1}]}}"))
	if tool := b.Policies[0].Spec.Tool; tool.WarnThreshold != 4 || tool.BlockThreshold != 9 || tool.OutcomeWarn != 2 || tool.OutcomeBlock != 3 ||
		tool.PerTool[0].WarnThreshold != 1 || tool.PerTool[0].BlockThreshold != 2 {
		t.Errorf("swapped: %+v", tool)
	}
	wantWarning(t, b, "warn_threshold is greater than block_threshold: they are swapped")
	b = mustParse(t, onePolicy("{tool: {per_tool: [{match: x, warn_threshold: 7}]}}"))
	wantWarning(t, b, "such calls are blocked without a warning")
}

func TestShortHistoryLowersTheDefaultMatches(t *testing.T) {
	t.Parallel()
	b := mustParse(t, onePolicy("{semantic: {history_size: 1}}"))
	if got := b.Policies[0].Spec.Semantic.MinMatches; got != 1 {
		t.Errorf("min_matches is %d", got)
	}
}

func TestTolerantParsingIgnoresUnknownKeys(t *testing.T) {
	t.Parallel()
	text := `
bundle_version: 2
shiny: new
policies:
- id: p
  spec:
    prompt: {max_hits: 2, sparkle: true}
    quantum: {}
    rules: [{name: r, limit_keys: caller, algorithm: token_bucket, algorithm_config: {rps: 1, burst: 1, jitter: 3}}]`
	b, err := policy.ParseTolerant([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	if b.Policies[0].Spec.Prompt.MaxHits != 2 {
		t.Errorf("the known keys were lost: %+v", b.Policies[0].Spec.Prompt)
	}
	for _, key := range []string{"shiny", "sparkle", "quantum", "jitter"} {
		wantWarning(t, b, fmt.Sprintf("unknown key %q is ignored", key))
	}
	if _, err := policy.ParseTolerant([]byte("bundle_version: 0\npolicies: []")); err == nil {
		t.Error("a wrong value was tolerated")
	}
}

func TestExpiry(t *testing.T) {
	t.Parallel()
	b := mustParse(t, "bundle_version: 1\nexpires_at: 2026-01-02T00:00:00Z\npolicies: []")
	at := time.Date(2026, 1, 2, 0, 0, 0, 0, time.UTC)
	if b.ExpiredAt(at.Add(-time.Second)) || !b.ExpiredAt(at) {
		t.Error("expires_at is not the moment from which the bundle is expired")
	}
	if mustParse(t, "bundle_version: 1\npolicies: []").ExpiredAt(at) {
		t.Error("a bundle without expires_at expired")
	}
}

func TestFaultsAreOneErrorType(t *testing.T) {
	t.Parallel()
	_, err := policy.Parse([]byte("bundle_version: 0\npolicies: 3"))
	var faults *policy.Faults
	if !errors.As(err, &faults) {
		t.Fatalf("%T is no *Faults", err)
	}
	want := []policy.Fault{
		{Line: 1, Field: "bundle_version", Message: "bundle_version must be a positive integer"},
		{Line: 2, Field: "policies", Message: "policies must be a list"},
	}
	if diff := cmp.Diff(want, faults.List); diff != "" {
		t.Error(diff)
	}
	if text := err.Error(); !strings.Contains(text, "line 2: policies: policies must be a list") {
		t.Errorf("the error's text is %q", text)
	}
}

func TestBundleMadeInGoIsChecked(t *testing.T) {
	t.Parallel()
	spec := policy.DefaultSpec()
	spec.Prompt = &policy.Prompt{Enabled: true, MaxHits: 1}
	b := &policy.Bundle{BundleVersion: 1, Policies: []policy.Entry{{ID: "p", Spec: spec}}}
	err := b.Validate()
	var faults *policy.Faults
	if !errors.As(err, &faults) || faults.List[0].Field != "policies[0].spec.prompt.window_seconds" {
		t.Errorf("a prompt detector without window is valid: %v", err)
	}
	b.Policies[0].Spec.Prompt = policy.DefaultPrompt()
	if err := b.Validate(); err != nil {
		t.Error(err)
	}
}

func TestVersionNamesNumberAndContent(t *testing.T) {
	t.Parallel()
	version := func(b *policy.Bundle) string {
		v, err := b.Version()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	text := onePolicy("{prompt: {}}")
	a, b, c := version(mustParse(t, text)), version(mustParse(t, text)), version(mustParse(t, onePolicy("{prompt: {max_hits: 4}}")))
	if !regexp.MustCompile(`^1-[0-9a-f]{8}$`).MatchString(a) {
		t.Errorf("version %q", a)
	}
	if a != b || a == c {
		t.Errorf("versions %q, %q of the same and %q of another bundle", a, b, c)
	}
	standard, err := policy.Default(nil)
	if err != nil {
		t.Fatal(err)
	}
	if v := version(standard); !strings.HasPrefix(v, "1-") || v == a {
		t.Errorf("version %q of a bundle made in Go", v)
	}
}
