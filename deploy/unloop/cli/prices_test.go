package cli

import (
	"strings"
	"testing"

	"github.com/unloop/unloop/gateway"
)

func TestPricesAreShownWithTheirDate(t *testing.T) {
	t.Parallel()
	out := succeed(t, "policy", "prices")
	for _, want := range []string{gateway.BuiltinPrices().Date, "  gpt-4o\n", "0.15   0.075     0.6    gpt-4o-mini", "30       -      60    gpt-4\n"} {
		if !strings.Contains(strings.Join(strings.Fields(out), " "), strings.Join(strings.Fields(want), " ")) {
			t.Errorf("no %q in:\n%s", want, out)
		}
	}
}

func TestExplainSaysWhereAPriceComesFrom(t *testing.T) {
	t.Parallel()
	bundle := write(t, `bundle_version: 1
prices: {own: {input_usd_per_million: 1, output_usd_per_million: 1}}
policies:
  - id: p
    spec:
      rules:
        - {name: spend, limit_keys: [model], algorithm: cost_based, algorithm_config: {budget: 9, period: 1d, cost_key: usd, staged_actions: [{threshold_percent: 100, action: reject}]}}
`)
	for model, want := range map[string]string{
		"own": "priced by the bundle", "gpt-4o": "priced by the built-in table of " + gateway.BuiltinPrices().Date, "new": "priced by default_cost",
	} {
		request := requestFile(t, `{"path": "/v1/chat/completions", "body": {"model": "`+model+`", "messages": [{"role": "user", "content": "Hello"}]}}`)
		if out := succeed(t, "policy", "explain", "--offline", "--policies", bundle, request); !strings.Contains(out, want) {
			t.Errorf("%s: no %q in:\n%s", model, want, out)
		}
	}
}
