package policy_test

import (
	"testing"

	"github.com/unloop/unloop/schemas/policy"
)

func TestAgentSentinelComparesATenantsPrompts(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]struct {
		scope   string
		matches int
	}{
		`{bundle_version: 1, compat: [agent-sentinel], policies: [{id: a, spec: {semantic: {}}}]}`:                                        {"tenant", 1},
		`{bundle_version: 1, compat: [agent-sentinel], policies: [{id: a, spec: {semantic: {scope: session}}}]}`:                          {"session", 1},
		`{bundle_version: 1, compat: [fairvisor, agent-sentinel], policies: [{id: a, spec: {semantic: {min_matches: 2, action: warn}}}]}`: {"tenant", 2},
		`{bundle_version: 1, compat: [fairvisor], policies: [{id: a, spec: {semantic: {}}}]}`:                                             {"session", 2},
	} {
		b, err := policy.Parse([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		if s := b.Policies[0].Spec.Semantic; s.Scope != want.scope || s.MinMatches != want.matches {
			t.Errorf("%s: scope %s, %d matches", text, s.Scope, s.MinMatches)
		}
	}
}

func TestFairvisorWarnsOfASelectorWithoutAPath(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		`{bundle_version: 1, compat: [fairvisor], policies: [{id: a, spec: {}}]}`,
		`{bundle_version: 1, compat: [fairvisor], policies: [{id: a, spec: {selector: {methods: [POST]}}}]}`,
	} {
		wantWarning(t, mustParse(t, text), "the policy matches nothing")
	}
}

func TestACircuitBreakerWithoutRulesIsWarnedOf(t *testing.T) {
	t.Parallel()
	b := mustParse(t, onePolicy("{circuit_breaker: {enabled: true, spend_rate_threshold_per_minute: 5}}"))
	wantWarning(t, b, "circuit_breaker counts requests, and those of all together")
}

func TestClassesOfAddressesAreInertWithoutTrustedProxies(t *testing.T) {
	t.Parallel()
	const rules = `policies: [{id: a, spec: {rules: [{name: r, limit_keys: ["ip:asn"], match: {"ip:tor": "true"}, algorithm: token_bucket, algorithm_config: {rps: 1, burst: 1}}]}}]`
	b, err := policy.Parse([]byte(`{bundle_version: 1, ` + rules + `}`))
	if err != nil {
		t.Fatal(err)
	}
	wantWarning(t, b, "ip:asn has no effect without trusted_proxies, which set X-ASN: the rule is skipped")
	wantWarning(t, b, "ip:tor has no effect without trusted_proxies, which set X-Tor-Exit: the rule never applies")
	if b, err = policy.Parse([]byte(`{bundle_version: 1, trusted_proxies: [10.0.0.0/8], ` + rules + `}`)); err != nil || len(b.Warnings()) != 0 {
		t.Errorf("%v, %v", b.Warnings(), err)
	}
}

func TestAISGCountsEachPrompt(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]bool{
		`{bundle_version: 1, compat: [aisg], policies: [{id: a, spec: {prompt: {}}}]}`:                       true,
		`{bundle_version: 1, compat: [aisg], policies: [{id: a, spec: {prompt: {count_each: false}}}]}`:      false,
		`{bundle_version: 1, compat: [fairvisor, aisg], policies: [{id: a, spec: {prompt: {max_hits: 3}}}]}`: true,
		`{bundle_version: 1, policies: [{id: a, spec: {prompt: {}}}]}`:                                       false,
	} {
		if p := mustParse(t, text).Policies[0].Spec.Prompt; p.CountEach != want || p.Samples != 32 {
			t.Errorf("%s: count_each %t, samples %d", text, p.CountEach, p.Samples)
		}
	}
}
