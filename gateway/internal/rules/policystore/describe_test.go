package policystore

import (
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/unloop/unloop/schemas/status"
)

func TestPoliciesInForceAreDescribed(t *testing.T) {
	t.Parallel()
	b := described(t, `
bundle_version: 7
kill_switches:
  - {scope_key: tenant, scope_value: acme}
  - {scope_key: tenant, scope_value: gone, expires_at: 2020-01-01T00:00:00Z}
policies:
  - id: agents
    spec:
      mode: shadow
      failure_mode: closed
      loop_detection: {enabled: true, window_seconds: 45, threshold_identical_requests: 4, action: throttle}
      prompt: {max_hits: 5, window_seconds: 60}
      tool: {warn_threshold: 3, block_threshold: 6, ttl_seconds: 900}
      cycle: {repeats: 4, action: warn}
      semantic: {threshold: 0.9, ttl_seconds: 3600, reject_after: 8}
      rules:
        - {name: base, limit_keys: [tenant], algorithm: token_bucket, algorithm_config: {rps: 20, burst: 40}}
  - id: quiet
    spec: {prompt: {enabled: false}, selector: {tenant: [a, b], models: "gpt-*", headers: {X-Team: "r?d"}, pathPrefix: /v1, methods: [GET, POST]}}
  - id: elsewhere
    spec: {prompt: {enabled: false}, selector: {pathPrefix: /v1/messages, upstream: mine, methods: [PUT], caller: c, headers: {X-Api-Key: secret}}}
`)
	want := []status.Policy{
		{ID: "agents", Mode: "shadow", FailureMode: "closed", Rules: []string{"base"}, Detectors: []status.Detector{
			{Name: "request", WindowSeconds: 45, Steps: []status.Step{{At: 4, Action: "throttle"}}},
			{Name: "prompt", WindowSeconds: 60, Steps: []status.Step{{At: 6, Action: "reject"}}},
			{Name: "tool", WindowSeconds: 900, Steps: []status.Step{{At: 3, Action: "hint"}, {At: 6, Action: "reject"}}},
			{Name: "cycle", Steps: []status.Step{{At: 4, Action: "warn"}}},
			{Name: "semantic", WindowSeconds: 3600, Similarity: 0.9, Steps: []status.Step{{At: 2, Action: "hint"}, {At: 8, Action: "reject"}}},
		}},
		{
			ID: "quiet", Mode: "enforce", FailureMode: "open", Detectors: []status.Detector{},
			Selects: &status.Selects{Tenant: "a", Model: "gpt-x", Headers: map[string]string{"X-Team": "rxd"}},
		},
		{
			ID: "elsewhere", Mode: "enforce", FailureMode: "open", Detectors: []status.Detector{},
			Selects: &status.Selects{Path: "/v1/messages", Others: []string{"caller", "header X-Api-Key", "methods", "upstream"}},
		},
	}
	if diff := cmp.Diff(want, b.Policies); diff != "" {
		t.Error(diff)
	}
	if !strings.HasPrefix(b.Version, "7-") || b.Source != "file" || b.KillSwitches != 1 || b.Omitted != 0 {
		t.Errorf("bundle %+v", b)
	}
}

func TestDescriptionsOfManyPoliciesAreBounded(t *testing.T) {
	t.Parallel()
	var text strings.Builder
	text.WriteString("bundle_version: 1\nkill_switch_override: true\nkill_switches: [{scope_key: tenant, scope_value: acme}]\npolicies:\n")
	for i := range status.MaxPolicies + 3 {
		fmt.Fprintf(&text, "  - {id: p%d, spec: {tool: {escalation: [{at: 2, action: warn}]}}}\n", i)
	}
	b := described(t, text.String())
	if len(b.Policies) != status.MaxPolicies || b.Omitted != 3 || b.KillSwitches != 0 {
		t.Errorf("%d policies, %d omitted, %d kill switches", len(b.Policies), b.Omitted, b.KillSwitches)
	}
	if steps := b.Policies[0].Detectors[0].Steps; !cmp.Equal(steps, []status.Step{{At: 2, Action: "warn"}}) {
		t.Errorf("steps %+v", steps)
	}
}

func described(t *testing.T, text string) *status.Bundle {
	t.Helper()
	file := filepath.Join(t.TempDir(), "bundle.yaml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	p, err := New(Config{File: file}, time.Now, slog.New(slog.DiscardHandler), prometheus.NewRegistry())
	if err != nil {
		t.Fatal(err)
	}
	return p.Describe(time.Now())
}
