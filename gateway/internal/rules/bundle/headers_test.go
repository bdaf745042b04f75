package bundle_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestHeadersAreThoseThatTheBundleLooksAt(t *testing.T) {
	t.Parallel()
	s := mustCompile(t, `
bundle_version: 1
kill_switches: [{scope_key: "header:X-Team", scope_value: red}, {scope_key: tenant, scope_value: acme}]
policies:
  - id: a
    spec:
      selector: {headers: {X-Agent: "build-*"}}
      rules:
        - {name: r, limit_keys: ["header:X-Tool-Name", caller], match: {"header:x-plan": free}, algorithm: token_bucket,
           algorithm_config: {rps: 1, burst: 2, cost_source: "header:X-Cost"}}
        - {name: l, limit_keys: [caller], algorithm: token_bucket_llm,
           algorithm_config: {tokens_per_minute: 10, token_source: {estimator: header_hint}}}
      fallback_limit: {limit_keys: ["header:x-fallback"], algorithm: cost_based,
        algorithm_config: {budget: 10, period: 1h, cost_key: "header:x-spend", staged_actions: [{threshold_percent: 100, action: reject}]}}
`)
	want := []string{"x-agent", "x-cost", "x-fallback", "x-plan", "x-spend", "x-team", "x-token-estimate", "x-tool-name"}
	if diff := cmp.Diff(want, s.Headers()); diff != "" {
		t.Errorf("headers (-want +got):\n%s", diff)
	}
}
