package policy_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/unloop/unloop/schemas/policy"
)

const costs = "limit_keys: [caller], algorithm: cost_based, algorithm_config: {budget: 5, period: 1d, "

// Each is a policy, or the head of a bundle, and the keys of it that have no effect.
var inert = map[string][]string{
	"head defaults: {x: 1}":                    {"defaults"},
	"head jwt: {}":                             {"jwt"},
	"head compat: [aisg]":                      {"compat[0]"},
	"head compat: [agent-sentinel, fairvisor]": {"compat[0]", "policies[0].spec.selector"},
	"head trusted_proxies: [10.0.0.0/8]":       {"trusted_proxies"},
	"head kill_switch_override: true\nkill_switches: [{scope_key: tenant, scope_value: x}]": {"kill_switches"},
	"head global_shadow: {reason: x}": {"global_shadow"},

	"mode: shadow, prompt: {}, reject: 400, holdout: 0.5": {"reject", "holdout"},
	"include_excerpt: true, holdout: 0.5":                 {"include_excerpt", "holdout"},
	"prompt: {action: warn, hint_rounds: 0, complaint_hint: 0, complaint_stop: 0}, reject: 429, hint: {text: stop}": {"reject", "hint"},
	"rules: [{name: r, " + costs + "staged_actions: [{threshold_percent: 100, action: reject}]}}], " +
		"fallback_limit: {" + costs + "staged_actions: [{threshold_percent: 100, action: reject}]}}": {"fallback_limit"},

	"loop_detection: {window_seconds: 5}": {"loop_detection"},
	"circuit_breaker: {action: reject}":   {"circuit_breaker"},
	"loop_detection: {enabled: true, window_seconds: 5, threshold_identical_requests: 5, action: warn, cooldown_seconds: 5}":                   {"loop_detection.cooldown_seconds"},
	"loop_detection: {enabled: true, window_seconds: 5, threshold_identical_requests: 5, action: warn, escalation: [{at: 3, action: reject}]}": {"loop_detection.action"},

	"prompt: {max_hits: 3, action: reject, escalation: [{at: 3, action: hint}], cooldown_seconds: 5, warn_hits: 0, warn_window_seconds: 9}": {
		"prompt.max_hits", "prompt.action", "prompt.cooldown_seconds", "prompt.warn_window_seconds",
	},
	"tool: {escalation: [{at: 3, action: hint}], warn_threshold: 3, block_threshold: 5, warn_action: hint, block_action: hint, block_answer: error}": {
		"tool.warn_threshold", "tool.block_threshold", "tool.warn_action", "tool.block_action", "tool.block_answer",
	},
	"tool: {error_threshold: 0, failed_rounds: 0, empty_threshold: 0, unknown_tool_threshold: 0, error_action: hint}": {"tool.error_action"},
	"tool: {per_tool: [{match: a}, {match: '*', warn_threshold: 2}, {match: b, warn_threshold: 2}]}":                  {"tool.per_tool[0].match", "tool.per_tool[2].match"},
	"cycle: {escalation: [{at: 3, action: hint}], repeats: 3, action: hint, block_answer: error, nothing_new: 0, escalate: 2}": {
		"cycle.repeats", "cycle.action", "cycle.escalate", "cycle.block_answer",
	},
	"cycle: {nothing_new: 0, wide_window: 0, wide_rounds: 3, wide_distinct_percent: 3, wide_action: hint}": {
		"cycle.wide_rounds", "cycle.wide_distinct_percent", "cycle.wide_action",
	},
	"semantic: {escalation: [{at: 3, action: hint}], action: warn, reject_after: 3}": {"semantic.action", "semantic.reject_after"},
	"semantic: {action: reject, reject_after: 3}":                                    {"semantic.reject_after"},

	"rules: [{name: r, limit_keys: [caller], algorithm: token_bucket, algorithm_config: {rps: 1, tokens_per_second: 2, burst: 5, cost_source: 'header:x', fixed_cost: 2}}]": {
		"rules[0].algorithm_config.rps", "rules[0].algorithm_config.fixed_cost",
	},
	"rules: [{name: r, limit_keys: [caller], algorithm: token_bucket, algorithm_config: {rps: 1, burst: 5, default_cost: 2}}]": {"rules[0].algorithm_config.default_cost"},
	"rules: [{name: r, " + costs + "cost_key: usd, fixed_cost: 2, staged_actions: [{threshold_percent: 50, action: reject}, {threshold_percent: 100, action: reject, delay_ms: 5}]}}]": {
		"rules[0].algorithm_config.fixed_cost", "rules[0].algorithm_config.staged_actions[1].delay_ms", "rules[0].algorithm_config.staged_actions[1].action",
	},
	"rules: [{name: r, " + costs + "cost_key: fixed, default_cost: 2, staged_actions: [{threshold_percent: 100, action: reject}]}}]": {"rules[0].algorithm_config.default_cost"},
}

func TestKeysWithoutEffectAreWarnedOf(t *testing.T) {
	t.Parallel()
	for text, want := range inert {
		head, ok := strings.CutPrefix(text, "head ")
		if ok {
			text = "bundle_version: 1\n" + head + "\npolicies: [{id: p, spec: {}}]\n"
		} else {
			text = onePolicy("{" + text + "}")
		}
		var got []string
		for _, w := range mustParse(t, text).Warnings() {
			if w.Field != "policies[0].spec" { // TestPoliciesThatWatchNothingAreWarnedOf
				got = append(got, w.Field)
			}
		}
		all := make([]string, len(want))
		for i, field := range want {
			all[i] = field
			if !ok {
				all[i] = "policies[0].spec." + field
			}
		}
		slices.Sort(got)
		slices.Sort(all)
		if !slices.Equal(got, all) {
			t.Errorf("%s\nwarns of %q, want %q", text, got, all)
		}
	}
}

func TestWhatHasExpiredIsToldAtATime(t *testing.T) {
	t.Parallel()
	b := mustParse(t, "bundle_version: 1\nglobal_shadow: {enabled: true, expires_at: 2025-01-01T00:00:00Z}\nkill_switches:\n"+
		"- {scope_key: tenant, scope_value: a, expires_at: 2025-01-02T00:00:00Z}\n- {scope_key: tenant, scope_value: b}\npolicies: []\n")
	lapsed := func(day int) (fields []string) {
		for _, f := range b.Lapsed(time.Date(2025, 1, day, 0, 0, 0, 0, time.UTC)) {
			fields = append(fields, f.Field)
			if f.Line == 0 {
				t.Errorf("%v has no line", f)
			}
		}
		return fields
	}
	if got := lapsed(1); !slices.Equal(got, []string{"global_shadow"}) {
		t.Errorf("on the first day: %q", got)
	}
	if got := lapsed(2); !slices.Equal(got, []string{"global_shadow", "kill_switches[0]"}) {
		t.Errorf("on the second day: %q", got)
	}
}

func TestFairvisorSortsStages(t *testing.T) {
	t.Parallel()
	const rules = "policies: [{id: p, spec: {selector: {pathPrefix: /}, rules: [{name: r, " + costs +
		"staged_actions: [{threshold_percent: 100, action: reject}, {threshold_percent: 50, action: warn}]}}]}}]\n"
	stages := mustParse(t, "bundle_version: 1\ncompat: [fairvisor]\n"+rules).Policies[0].Spec.Rules[0].CostBased.StagedActions
	if stages[0].Action != policy.Warn || stages[1].Action != policy.Reject {
		t.Errorf("stages %v", stages)
	}
	if _, err := policy.Parse([]byte("bundle_version: 1\n" + rules)); err == nil {
		t.Error("without compat: [fairvisor] any order is taken")
	}
}

func TestPoliciesThatWatchNothingAreWarnedOf(t *testing.T) {
	t.Parallel()
	for spec, want := range map[string]string{
		`{}`:                                     "policies[0].spec: the policy watches nothing",
		`{tool: {enabled: false}}`:               "policies[0].spec: the policy watches nothing",
		`{tool: {}}`:                             "",
		`{session_repair: {}}`:                   "",
		`{tool: {}, selector: {tenant: [acme]}}`: "policies: every policy selects tenants",
	} {
		found := false
		for _, w := range mustParse(t, onePolicy(spec)).Warnings() {
			text := w.Field + ": " + w.Message
			found = found || want != "" && strings.HasPrefix(text, want)
			if want == "" && (strings.Contains(text, "watches nothing") || strings.Contains(text, "tenants")) {
				t.Errorf("%s: %s", spec, text)
			}
		}
		if want != "" && !found {
			t.Errorf("%s: no warning %q", spec, want)
		}
	}
}
