package policy_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/unloop/unloop/schemas/policy"
)

func faultsOf(t *testing.T, text string) []policy.Fault {
	t.Helper()
	_, err := policy.Parse([]byte(text))
	var faults *policy.Faults
	if !errors.As(err, &faults) {
		t.Fatalf("no faults but %v in:\n%s", err, text)
	}
	return faults.List
}

// wantFault expects exactly one fault.
func wantFault(t *testing.T, text, field, message string) {
	t.Helper()
	faults := faultsOf(t, text)
	if len(faults) != 1 || faults[0].Field != field || !strings.Contains(faults[0].Message, message) {
		t.Errorf("want one fault at %s with %q, got %v\nin:\n%s", field, message, faults, text)
	}
}

func TestLoopDetectionFaultsSayWhatFairvisorSays(t *testing.T) {
	t.Parallel()
	tests := []struct{ block, field, message string }{
		{"enabled: true, window_seconds: 60, threshold_identical_requests: 1", "threshold_identical_requests", "threshold_identical_requests must be >= 2"},
		{"enabled: true, window_seconds: 60, threshold_identical_requests: 5, action: block", "action", "action must be one of reject, throttle, warn"},
		{"enabled: true, window_seconds: 60, threshold_identical_requests: 5, action: hint", "action", "action must be one of reject, throttle, warn"},
		{"enabled: true, threshold_identical_requests: 5", "window_seconds", "when enabled is true, window_seconds is required"},
		{"enabled: true, window_seconds: 60", "threshold_identical_requests", "when enabled is true, threshold_identical_requests is required"},
		{"enabled: true, window_seconds: 0, threshold_identical_requests: 5", "window_seconds", "window_seconds must be a positive integer"},
		{"enabled: true, window_seconds: 1.5, threshold_identical_requests: 5", "window_seconds", "window_seconds must be a positive integer"},
		{"enabled: true, window_seconds: '60', threshold_identical_requests: 5", "window_seconds", "window_seconds must be a positive integer"},
		{"enabled: true, window_seconds: 60, threshold_identical_requests: 5, similarity: fuzzy", "similarity", "similarity must be exact"},
		{"enabled: true, window_seconds: 60, threshold_identical_requests: many", "threshold_identical_requests", "threshold_identical_requests must be an integer >= 2"},
		{"enabled: 'yes', window_seconds: 60, threshold_identical_requests: 5", "enabled", "enabled must be a boolean"},
		{"enabled: 1, window_seconds: 60, threshold_identical_requests: 5", "enabled", "enabled must be a boolean"},
		{"enabled: null, window_seconds: 60, threshold_identical_requests: 5", "enabled", "enabled must be a boolean"},
		{"enabled: true, window_seconds: 60, threshold_identical_requests: 5, escalation: [{at: 3, action: hint}]", "escalation[0].action", "action must be one of reject, throttle, warn"},
	}
	for _, tt := range tests {
		t.Run(tt.block, func(t *testing.T) {
			t.Parallel()
			wantFault(t, onePolicy("{loop_detection: {"+tt.block+"}}"), "policies[0].spec.loop_detection."+tt.field, tt.message)
		})
	}
}

func TestDisabledBlockIsValidWhateverElseItSays(t *testing.T) {
	t.Parallel()
	for _, block := range []string{
		"loop_detection: {enabled: false, window_seconds: -1, action: block, nonsense: true}",
		"loop_detection: {window_seconds: -1}",
		"prompt: {enabled: false, max_hits: many}",
		"circuit_breaker: {enabled: false, action: 3}",
	} {
		spec := mustParse(t, onePolicy("{"+block+"}")).Policies[0].Spec
		if spec.LoopDetection != nil && spec.LoopDetection.Enabled || spec.Prompt != nil && spec.Prompt.Active() {
			t.Errorf("%s is on", block)
		}
	}
	wantWarning(t, mustParse(t, onePolicy("{loop_detection: {window_seconds: 5}}")), "has no effect: it does not say enabled: true")
}

func TestFaultsInSpecs(t *testing.T) {
	t.Parallel()
	rule := func(algorithm, config string) string {
		return fmt.Sprintf("{rules: [{name: r, limit_keys: [caller], algorithm: %s, algorithm_config: {%s}}]}", algorithm, config)
	}
	tests := []struct{ name, spec, field, message string }{
		{"unknown key", "{prompt: {max_hit: 5}}", "prompt.max_hit", `unknown key "max_hit"; did you mean "max_hits"?`},
		{"unknown key far from any", "{zzzzzz: 5}", "zzzzzz", `unknown key "zzzzzz"`},
		{"snake case selector", "{selector: {path_prefix: /v1}}", "selector.path_prefix", `did you mean "pathPrefix"?`},
		{"repeated key", "{mode: shadow, mode: enforce}", "mode", `key "mode" appears twice, first on line 4`},
		{"empty block", "{prompt: }", "prompt", "prompt must be a mapping"},
		{"list for a block", "{prompt: []}", "prompt", "prompt must be a mapping"},
		{"mode", "{mode: watch}", "mode", "mode must be one of enforce, shadow"},
		{"failure mode", "{failure_mode: shut}", "failure_mode", "failure_mode must be one of open, closed"},
		{"empty mode", "{mode: ''}", "mode", "mode must be one of enforce, shadow"},
		{"holdout over one", "{holdout: 1.1}", "holdout", "holdout must be <= 1"},
		{"infinite", "{holdout: .inf}", "holdout", "holdout must be a number"},
		{"not a number", "{holdout: .nan}", "holdout", "holdout must be a number"},
		{"huge integer", "{prompt: {max_hits: 99999999999999999999}}", "prompt.max_hits", "max_hits must be <= 10000"},
		{"negative", "{prompt: {max_hits: -1}}", "prompt.max_hits", "max_hits must be an integer, 0 or more"},
		{"boolean for an integer", "{prompt: {max_hits: true}}", "prompt.max_hits", "max_hits must be an integer, 0 or more"},
		{"mapping for an integer", "{prompt: {max_hits: {}}}", "prompt.max_hits", "max_hits must be an integer, 0 or more"},
		{"number for a string", "{selector: {methods: [1]}}", "selector.methods[0]", `methods[0] must be a string: write "1"`},
		{"mapping for strings", "{selector: {methods: {}}}", "selector.methods", "methods must be a string or a list of strings"},
		{"relative path", "{selector: {pathPrefix: v1}}", "selector.pathPrefix[0]", "pathPrefix[0] must start with /"},
		{"header name", "{selector: {headers: {'a b': c}}}", "selector.headers.a b", `"a b" is no header name`},
		{"empty tenant", "{selector: {tenant: ['']}}", "selector.tenant[0]", "must not be empty"},
		{"empty hint", "{hint: {text: ''}}", "hint.text", "text must not be empty"},
		{"hint position", "{hint: {position: middle}}", "hint.position", "position must be one of head, result"},
		{"escalation order", "{prompt: {escalation: [{at: 5, action: hint}, {at: 5, action: reject}]}}", "prompt.escalation[1].at", "at must be > 5"},
		{"escalation strength", "{prompt: {escalation: [{at: 5, action: reject}, {at: 6, action: warn}]}}", "prompt.escalation[1].action", "action must not be weaker than reject"},
		{"escalation without action", "{prompt: {escalation: [{at: 5}]}}", "prompt.escalation[0].action", "action is required"},
		{"matches over history", "{semantic: {history_size: 2, min_matches: 3}}", "semantic.min_matches", "min_matches must be <= history_size (2)"},
		{"wide rounds over window", "{cycle: {wide_window: 10}}", "cycle.wide_rounds", "wide_rounds must be <= wide_window (10)"},
		{"regular expression", "{tool: {volatile_patterns: ['(']}}", "tool.volatile_patterns[0]", "must be a regular expression"},
		{"unknown algorithm", rule("leaky_bucket", "rps: 1"), "rules[0].algorithm", "algorithm must be one of token_bucket, token_bucket_llm, cost_based"},
		{"another algorithm's key", rule("cost_based", "budget: 1, period: 5m, burst: 3, staged_actions: [{threshold_percent: 100, action: reject}]"), "rules[0].algorithm_config.burst", `unknown key "burst"`},
		{"algorithm said twice, differently", rule("token_bucket", "algorithm: cost_based, rps: 1, burst: 1"), "rules[0].algorithm_config.algorithm", "algorithm must be token_bucket"},
		{"burst below rate", rule("token_bucket", "rps: 10, burst: 9"), "rules[0].algorithm_config.burst", "burst must be >= the rate, 10"},
		{"no burst", rule("token_bucket", "rps: 10"), "rules[0].algorithm_config.burst", "burst is required"},
		{"no rate", rule("token_bucket", "burst: 10"), "rules[0].algorithm_config.tokens_per_second", "tokens_per_second or rps is required"},
		{"rate of nothing", rule("token_bucket", "rps: 0, burst: 10"), "rules[0].algorithm_config.rps", "rps must be > 0"},
		{"cost source", rule("token_bucket", "rps: 1, burst: 1, cost_source: body"), "rules[0].algorithm_config.cost_source", "cost_source must be one of fixed, header:NAME, query:NAME"},
		{"burst tokens below rate", rule("token_bucket_llm", "tokens_per_minute: 10, burst_tokens: 5"), "rules[0].algorithm_config.burst_tokens", "burst_tokens must be >= tokens_per_minute, 10"},
		{"two defaults for a completion", rule("token_bucket_llm", "tokens_per_minute: 10, default_max_completion: 5, default_max_completion_tokens: 6"), "rules[0].algorithm_config.default_max_completion_tokens", "are one setting, and differ"},
		{"period", rule("cost_based", "budget: 1, period: 2h, staged_actions: [{threshold_percent: 100, action: reject}]"), "rules[0].algorithm_config.period", "period must be one of 5m, 1h, 1d, 7d"},
		{"cost key", rule("cost_based", "budget: 1, period: 1h, cost_key: eur, staged_actions: [{threshold_percent: 100, action: reject}]"), "rules[0].algorithm_config.cost_key", "cost_key must be one of fixed, usd, header:NAME, query:NAME"},
		{"no stage rejects", rule("cost_based", "budget: 1, period: 1h, staged_actions: [{threshold_percent: 90, action: reject}]"), "rules[0].algorithm_config.staged_actions", "must have one with threshold_percent 100 and action reject"},
		{"stages out of order", rule("cost_based", "budget: 1, period: 1h, staged_actions: [{threshold_percent: 100, action: reject}, {threshold_percent: 50, action: warn}]"), "rules[0].algorithm_config.staged_actions[1].threshold_percent", "threshold_percent must be > 100"},
		{"throttle without delay", rule("cost_based", "budget: 1, period: 1h, staged_actions: [{threshold_percent: 1, action: throttle}, {threshold_percent: 100, action: reject}]"), "rules[0].algorithm_config.staged_actions[0].delay_ms", "delay_ms is required when action is throttle"},
		{"no configuration", "{rules: [{name: r, limit_keys: [caller], algorithm: token_bucket}]}", "rules[0].algorithm_config", "algorithm_config is required"},
		{"no name", "{rules: [{limit_keys: [caller], algorithm: token_bucket, algorithm_config: {rps: 1, burst: 1}}]}", "rules[0].name", "name is required"},
		{"no limit keys", "{rules: [{name: r, limit_keys: [], algorithm: token_bucket, algorithm_config: {rps: 1, burst: 1}}]}", "rules[0].limit_keys", "limit_keys must name at least one descriptor"},
		{"descriptor", "{rules: [{name: r, limit_keys: [ip:planet], algorithm: token_bucket, algorithm_config: {rps: 1, burst: 1}}]}", "rules[0].limit_keys[0]", "must be a descriptor (jwt:CLAIM"},
		{"match key", "{rules: [{name: r, limit_keys: [caller], match: {plan: pro}, algorithm: token_bucket, algorithm_config: {rps: 1, burst: 1}}]}", "rules[0].match.plan", `"plan" is no descriptor`},
		{"match value", "{rules: [{name: r, limit_keys: [caller], match: {tenant: []}, algorithm: token_bucket, algorithm_config: {rps: 1, burst: 1}}]}", "rules[0].match.tenant", "tenant must be a string, a number or a boolean"},
		{"same rule name", "{rules: [&r {name: r, limit_keys: [caller], algorithm: token_bucket, algorithm_config: {rps: 1, burst: 1}}, *r]}", "rules[1].name", `name "r" is already used by rules[0]`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			wantFault(t, "bundle_version: 1\npolicies:\n- id: p\n  spec: "+tt.spec, "policies[0].spec."+tt.field, tt.message)
		})
	}
}

func TestFaultsInBundles(t *testing.T) {
	t.Parallel()
	const rest = "\npolicies: []\n"
	tests := []struct{ name, text, field, message string }{
		{"empty", " \n", "", "the bundle is empty"},
		{"comment only", "# nothing\n", "", "the bundle is empty"},
		{"a scalar", "hello", "", "must be a mapping"},
		{"a list", "[]", "", "must be a mapping"},
		{"two documents", "bundle_version: 1" + rest + "---\n{}", "", "single YAML document"},
		{"broken YAML", "bundle_version: [", "", "not well-formed"},
		{"a tab", "bundle_version: 1\npolicies:\n\t- id: x\n", "", "a line is indented with a tab, where YAML wants spaces"},
		{"broken JSON", `{"bundle_version": 1,`, "", "not well-formed"},
		{"a key that is no name", "bundle_version: 1\n? [a]\n: b" + rest, "", "keys must be plain names"},
		{"too large", strings.Repeat(" ", policy.MaxBytes+1), "", "larger than"},
		{"no version", "policies: []", "bundle_version", "bundle_version is required"},
		{"no policies", "bundle_version: 1", "policies", "policies is required"},
		{"null policies", "bundle_version: 1\npolicies:", "policies", "policies must be a list"},
		{"string version", "bundle_version: '1'" + rest, "bundle_version", "bundle_version must be a positive integer"},
		{"time", "bundle_version: 1\nexpires_at: tomorrow" + rest, "expires_at", "expires_at must be a time such as"},
		{"number for a time", "bundle_version: 1\nissued_at: 5" + rest, "issued_at", "issued_at must be a time such as"},
		{"global shadow", "bundle_version: 1\nglobal_shadow: maybe" + rest, "global_shadow", "global_shadow must be a boolean"},
		{"compat", "bundle_version: 1\ncompat: [nginx]" + rest, "compat[0]", "compat[0] must be one of fairvisor, agent-sentinel, aisg"},
		{"proxies", "bundle_version: 1\ntrusted_proxies: [10.0.0.1]" + rest, "trusted_proxies[0]", "must be a network such as 10.0.0.0/8"},
		{"price", "bundle_version: 1\nprices: {gpt: {output_usd_per_million: 1}}" + rest, "prices.gpt.input_usd_per_million", "input_usd_per_million is required"},
		{"negative price", "bundle_version: 1\nprices: {gpt-4.1: {input_usd_per_million: -1}}" + rest, "prices.gpt-4.1.input_usd_per_million", "must be >= 0"},
		{"kill switch key", "bundle_version: 1\nkill_switches: [{scope_key: color, scope_value: red}]" + rest, "kill_switches[0].scope_key", "must be a descriptor"},
		{"kill switch value", "bundle_version: 1\nkill_switches: [{scope_key: tenant}]" + rest, "kill_switches[0].scope_value", "scope_value is required"},
		{"kill switch route", "bundle_version: 1\nkill_switches: [{scope_key: tenant, scope_value: a, route: v1}]" + rest, "kill_switches[0].route", "route must start with /"},
		{"defaults", "bundle_version: 1\ndefaults: 3" + rest, "defaults", "defaults must be a mapping"},
		{"policy without id", "bundle_version: 1\npolicies: [{spec: {}}]", "policies[0].id", "id is required"},
		{"policy with empty id", "bundle_version: 1\npolicies: [{id: '', spec: {}}]", "policies[0].id", "id must not be empty"},
		{"policy without spec", "bundle_version: 1\npolicies: [{id: a}]", "policies[0].spec", "spec is required"},
		{"same id", "bundle_version: 1\npolicies: [{id: a, spec: {}}, {id: a, spec: {}}]", "policies[1].id", `id "a" is already used by policies[0]`},
		{"long id", "bundle_version: 1\npolicies: [{id: " + strings.Repeat("x", 129) + ", spec: {}}]", "policies[0].id", "id must have at most 128 characters"},
		{"merge of a scalar", "bundle_version: 1\n<<: 3" + rest, "", "<< must name a mapping"},
		{"merge of a merge", "defaults: {a: &a {x: 1}, b: &b {<<: *a}}\nbundle_version: 1\n<<: *b" + rest, "", "must not merge another one"},
		{"jwks url", "bundle_version: 1\njwt: {jwks_url: 'file:///etc/passwd'}" + rest, "jwt.jwks_url", "jwks_url must be an https URL"},
		{"jwks url in the clear", "bundle_version: 1\njwt: {jwks_url: 'http://id.example/keys'}" + rest, "jwt.jwks_url", "jwks_url must be an https URL"},
		{"jwt algorithm none", "bundle_version: 1\njwt: {keys: [{alg: none}]}" + rest, "jwt.keys[0].alg", "alg must be one of RS256"},
		{"jwt secret", "bundle_version: 1\njwt: {keys: [{alg: HS256}]}" + rest, "jwt.keys[0].secret_env", "secret_env is required for HS256"},
		{"jwt public key for a secret", "bundle_version: 1\njwt: {keys: [{alg: HS256, secret_env: S, public_key: x}]}" + rest, "jwt.keys[0].public_key", "public_key has no use for HS256"},
		{"jwt public key missing", "bundle_version: 1\njwt: {keys: [{alg: RS256}]}" + rest, "jwt.keys[0].public_key", "public_key is required for RS256"},
		{"jwt public key broken", "bundle_version: 1\njwt: {keys: [{alg: RS256, public_key: x}]}" + rest, "jwt.keys[0].public_key", "public_key must be a public key in PEM"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			wantFault(t, tt.text, tt.field, tt.message)
		})
	}
}

func TestJWTKeyOfTheWrongKindIsAFault(t *testing.T) {
	t.Parallel()
	full := string(samples(t)["full.yaml"])
	wantFault(t, strings.Replace(full, "alg: ES256", "alg: RS256", 1), "jwt.keys[1].public_key", "which is no key for RS256")
}

func TestEveryFaultIsReportedAtItsLine(t *testing.T) {
	t.Parallel()
	text := `bundle_version: 0
global_shadw: true
policies:
  - id: a
    spec:
      mode: enforced
      prompt:
        max_hits: lots
        tail_messages: 0
      semantic:
        threshold: 2
  - id: a
    spec: {}
`
	want := []string{
		`line 1: bundle_version: bundle_version must be a positive integer`,
		`line 2: global_shadw: unknown key "global_shadw"; did you mean "global_shadow"?`,
		`line 6: policies[0].spec.mode: mode must be one of enforce, shadow`,
		`line 8: policies[0].spec.prompt.max_hits: max_hits must be an integer, 0 or more`,
		`line 9: policies[0].spec.prompt.tail_messages: tail_messages must be a positive integer`,
		`line 11: policies[0].spec.semantic.threshold: threshold must be <= 1`,
		`line 12: policies[1].id: id "a" is already used by policies[0]`,
	}
	var got []string
	for _, f := range faultsOf(t, text) {
		got = append(got, f.String())
	}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func TestJSONFaultsHaveLines(t *testing.T) {
	t.Parallel()
	faults := faultsOf(t, "{\n \"bundle_version\": 1,\n \"polcies\": [],\n \"policies\": [\n  {\"id\": \"a\",\n   \"spec\": {\"mode\": 3}}\n ]\n}")
	if len(faults) != 2 || faults[0].Line != 3 || faults[1].Line != 6 {
		t.Errorf("got %v", faults)
	}
}

func TestAliasesCanNotBlowUp(t *testing.T) {
	t.Parallel()
	// Each policy stands for 200 rules of 200 descriptors, in two lines.
	var b strings.Builder
	b.WriteString("bundle_version: 1\ndefaults: {keys: &keys [caller" + strings.Repeat(", tenant", 200) + "],\n")
	b.WriteString(" rules: &rules [" + strings.TrimPrefix(strings.Repeat(", {limit_keys: *keys}", 200), ", ") + "]}\npolicies:\n")
	for range 200 {
		b.WriteString("- {id: a, spec: {rules: *rules}}\n")
	}
	faults := faultsOf(t, b.String())
	if !strings.Contains(fmt.Sprint(faults), "values once its aliases are expanded") {
		t.Errorf("the first of %d faults is %v", len(faults), faults[0])
	}
	// An alias may also name what it stands in.
	wantSomeFault(t, "bundle_version: 1\npolicies: &p [{id: a, spec: *p}]")
	wantSomeFault(t, "&a\nbundle_version: 1\n<<: *a\npolicies: []")
}

func wantSomeFault(t *testing.T, text string) {
	t.Helper()
	if len(faultsOf(t, text)) == 0 {
		t.Error("no fault")
	}
}
