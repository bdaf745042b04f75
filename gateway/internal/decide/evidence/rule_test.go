package evidence

import (
	"math"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/testing/protocmp"

	"github.com/unloop/unloop/gateway/internal/wire/usage"
	"github.com/unloop/unloop/schemas/checkpb"
	"github.com/unloop/unloop/schemas/finding"
)

const reject = checkpb.Action_ACTION_REJECT

func TestLimitsOfRules(t *testing.T) {
	t.Parallel()
	const key = "name: r, limit_keys: [caller], algorithm: "
	with := func(name, value string) asked {
		return asked{body: chat, caller: "c", header: map[string]string{name: value}}
	}
	ask := asked{body: chat, caller: "c"}
	const boundedPrompt = `[{"role":"user","content":"hello there"}]`
	bounded := `{"model":"gpt-4o","max_tokens":50,"n":2,"messages":` + boundedPrompt + `}`
	tokens := float64((len(chat) - len(`{"model":"gpt-4o","messages":}`)) / 4)
	day := []*checkpb.Stage{{Percent: 100, Action: reject}}
	for name, c := range map[string]struct {
		rule string
		a    asked
		want *checkpb.Limit // but for its names and key; nil if the rule does not apply
	}{
		"a fixed cost": {
			key + "token_bucket, algorithm_config: {rps: 2, burst: 5, fixed_cost: 3}", ask,
			&checkpb.Limit{Cost: 3, Bucket: &checkpb.Bucket{Rate: 2, Capacity: 5}},
		},
		"a cost in a header": {
			key + "token_bucket, algorithm_config: {rps: 2, burst: 5, cost_source: 'header:x-cost', default_cost: 4}", with("X-Cost", "2.5"),
			&checkpb.Limit{Cost: 2.5, Bucket: &checkpb.Bucket{Rate: 2, Capacity: 5}},
		},
		"no cost in a header": {
			key + "token_bucket, algorithm_config: {rps: 2, burst: 5, cost_source: 'header:x-cost', default_cost: 4}", ask,
			&checkpb.Limit{Cost: 4, Bucket: &checkpb.Bucket{Rate: 2, Capacity: 5}},
		},
		"a negative cost": {
			key + "token_bucket, algorithm_config: {rps: 2, burst: 5, cost_source: 'header:x-cost', default_cost: 4}", with("X-Cost", "-9"),
			&checkpb.Limit{Cost: 4, Bucket: &checkpb.Bucket{Rate: 2, Capacity: 5}},
		},
		"tokens": {
			key + "token_bucket_llm, algorithm_config: {tokens_per_minute: 6000, tokens_per_day: 9000, default_max_completion: 100}", ask,
			&checkpb.Limit{
				Cost: tokens + 100, Estimated: true, Bucket: &checkpb.Bucket{Rate: 100, Capacity: 6000},
				Budget: &checkpb.Budget{Amount: 9000, PeriodSeconds: 86400, Stages: day},
			},
		},
		"tokens, as the client estimates them": {
			key + "token_bucket_llm, algorithm_config: {tokens_per_minute: 6000, default_max_completion: 100, token_source: {estimator: header_hint}}", with("X-Token-Estimate", "7"),
			&checkpb.Limit{Cost: 107, Estimated: true, Bucket: &checkpb.Bucket{Rate: 100, Capacity: 6000}},
		},
		"tokens, as the client does not estimate them": {
			key + "token_bucket_llm, algorithm_config: {tokens_per_minute: 6000, default_max_completion: 100, token_source: {estimator: header_hint}}", with("X-Token-Estimate", "-7"),
			&checkpb.Limit{Cost: tokens + 100, Estimated: true, Bucket: &checkpb.Bucket{Rate: 100, Capacity: 6000}},
		},
		"tokens of a long prompt": {
			key + "token_bucket_llm, algorithm_config: {tokens_per_minute: 6000, default_max_completion: 100, max_prompt_tokens: 3}", ask,
			&checkpb.Limit{Cost: tokens + 100, Estimated: true, Oversized: true, Bucket: &checkpb.Bucket{Rate: 100, Capacity: 6000}},
		},
		"tokens of a large request": {
			key + "token_bucket_llm, algorithm_config: {tokens_per_minute: 6000, default_max_completion: 100, max_tokens_per_request: 50}", ask,
			&checkpb.Limit{Cost: tokens + 100, Estimated: true, Oversized: true, Bucket: &checkpb.Bucket{Rate: 100, Capacity: 6000}},
		},
		"tokens of a request that limits its answers": {
			key + "token_bucket_llm, algorithm_config: {tokens_per_minute: 6000, default_max_completion: 1000}", asked{body: bounded, caller: "c"},
			&checkpb.Limit{Cost: float64(len(boundedPrompt)/4) + 100, Estimated: true, Bucket: &checkpb.Bucket{Rate: 100, Capacity: 6000}},
		},
		"tokens of a body that can't be read": {
			key + "token_bucket_llm, algorithm_config: {tokens_per_minute: 6000, default_max_completion: 100}", asked{body: bounded, caller: "c", uninspected: "x"},
			&checkpb.Limit{Cost: float64(len(bounded)/4) + 100, Estimated: true, Bucket: &checkpb.Bucket{Rate: 100, Capacity: 6000}},
		},
		"tokens of a request that asks no model": {
			key + "token_bucket_llm, algorithm_config: {tokens_per_minute: 6000}", asked{method: "GET", url: "/v1/models", caller: "c"}, nil,
		},
		"dollars": {
			key + "cost_based, algorithm_config: {budget: 5, period: 1h, cost_key: usd, staged_actions: [{threshold_percent: 50, action: throttle, delay_ms: 100}, {threshold_percent: 100, action: reject}]}", ask,
			&checkpb.Limit{Cost: (tokens*2 + 1000*8) / 1e6, Estimated: true, Budget: &checkpb.Budget{
				Amount: 5, PeriodSeconds: 3600, Stages: []*checkpb.Stage{{Percent: 50, Action: checkpb.Action_ACTION_THROTTLE, DelayMs: 100}, {Percent: 100, Action: reject}},
			}},
		},
		"dollars for a model without a price": {
			key + "cost_based, algorithm_config: {budget: 5, period: 1h, cost_key: usd, default_cost: 0.5, staged_actions: [{threshold_percent: 100, action: reject}]}",
			asked{body: `{"model":"my-own","messages":[{"role":"user","content":"hello"}]}`, caller: "c"},
			&checkpb.Limit{Cost: 0.5, Budget: &checkpb.Budget{Amount: 5, PeriodSeconds: 3600, Stages: day}},
		},
		"a cost of its own": {
			key + "cost_based, algorithm_config: {budget: 5, period: 1h, cost_key: 'query:cost', staged_actions: [{threshold_percent: 100, action: reject}]}",
			asked{body: chat, caller: "c", url: "/v1/chat/completions?cost=1.5"},
			&checkpb.Limit{Cost: 1.5, Budget: &checkpb.Budget{Amount: 5, PeriodSeconds: 3600, Stages: day}},
		},
		"a match that holds": {
			key + "token_bucket, match: {'header:x-team': red}, algorithm_config: {rps: 2, burst: 5}", with("X-Team", "red"),
			&checkpb.Limit{Cost: 1, Bucket: &checkpb.Bucket{Rate: 2, Capacity: 5}},
		},
		"a match that does not hold": {key + "token_bucket, match: {'header:x-team': red}, algorithm_config: {rps: 2, burst: 5}", with("X-Team", "blue"), nil},
	} {
		set := compiled(t, "bundle_version: 1\nprices: {gpt-4o: {input_usd_per_million: 2, output_usd_per_million: 8}}\npolicies: [{id: p, spec: {rules: [{"+c.rule+"}]}}]\n")
		e := c.a.of(t, set)
		if c.want == nil {
			if e.Check != nil {
				t.Errorf("%s: %v", name, e.Check.GetLimits())
			}
			continue
		}
		c.want.Policy, c.want.Rule = "p", "r"
		got := e.Check.GetLimits()[0]
		if diff := cmp.Diff(c.want, got, protocmp.Transform(), protocmp.IgnoreFields(&checkpb.Limit{}, "key")); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
		if l := e.Limits[0]; (l.Oversized != "") != got.GetOversized() || l.Wire != got || len(got.GetKey()) == 0 {
			t.Errorf("%s: %+v", name, l)
		}
	}
}

func TestAnswersCostByTheirUsage(t *testing.T) {
	t.Parallel()
	set := compiled(t, `
bundle_version: 1
prices: {gpt-4o: {input_usd_per_million: 2, output_usd_per_million: 8, cached_input_usd_per_million: 1}}
policies:
  - id: p
    spec:
      rules:
        - {name: tokens, limit_keys: [caller], algorithm: token_bucket_llm, algorithm_config: {tokens_per_minute: 60}}
        - {name: dollars, limit_keys: [caller], algorithm: cost_based, algorithm_config: {budget: 5, period: 1h, cost_key: usd, staged_actions: [{threshold_percent: 100, action: reject}]}}
        - {name: requests, limit_keys: [caller], algorithm: token_bucket, algorithm_config: {rps: 1, burst: 1}}
`)
	e := asked{body: chat, caller: "c"}.of(t, set)
	u := usage.Usage{Input: 1000, Cached: 400, Output: 100}
	if tokens, dollars := e.Limits[0].Cost(u), e.Limits[1].Cost(u); tokens != 1100 || math.Abs(dollars-(600*2+400*1+100*8)/1e6) > 1e-12 || e.Limits[2].Cost != nil {
		t.Errorf("%v tokens, %v dollars", tokens, dollars)
	}
	verdicts := []*checkpb.LimitVerdict{{Limit: 1}, {Limit: 2}, {Limit: 3}}
	for i, v := range Verdicts(e.Limits, &checkpb.Decision{Limits: verdicts}) {
		if v.Wire != e.Limits[i].Wire || v.LimitVerdict != verdicts[i] {
			t.Errorf("verdict %d is %+v", i, v)
		}
	}
	if got := Verdicts(e.Limits, &checkpb.Decision{}); got != nil {
		t.Errorf("a decision without verdicts has %v", got)
	}
}

func TestCountersOfRulesFollowTheirDescriptors(t *testing.T) {
	t.Parallel()
	const rules = `rules: [{name: r, limit_keys: ["header:x-team", "jwt:team"], algorithm: token_bucket, algorithm_config: {rps: 1, burst: 1}}]`
	const token, same = "Bearer eyJhbGciOiJub25lIn0.eyJ0ZWFtIjoicmVkIn0.", "Bearer eyJhbGciOiJub25lIn0.eyJ0ZWFtIjoicmVkIn0.eA"
	of := func(team, authorization string) string {
		e := asked{body: chat, header: map[string]string{"X-Team": team, "Authorization": authorization}}.of(t, policies(t, "{"+rules+"}"))
		return string(e.Check.GetLimits()[0].GetKey())
	}
	if of("red", token) == of("blue", token) {
		t.Error("two values share a counter")
	}
	if of("red", token) != of("red", same) {
		t.Error("one value has two counters")
	}
	fallback := policies(t, `{rules: [{name: r, limit_keys: [caller], match: {tenant: acme}, algorithm: token_bucket, algorithm_config: {rps: 1, burst: 1}}],
		fallback_limit: {limit_keys: [caller], algorithm: token_bucket, algorithm_config: {rps: 3, burst: 3}}}`)
	e := asked{body: chat, caller: "c"}.of(t, fallback)
	if l := e.Check.GetLimits(); len(l) != 1 || l[0].GetRule() != "fallback_limit" || l[0].GetBucket().GetRate() != 3 {
		t.Errorf("where no rule matches, %v apply", l)
	}
}

func TestBreakerTakesTheCostOfTheFirstRule(t *testing.T) {
	t.Parallel()
	const breaker = "circuit_breaker: {enabled: true, spend_rate_threshold_per_minute: 1000, auto_reset_after_minutes: 1}"
	const tokens = "rules: [{name: r, limit_keys: ['header:x-team'], algorithm: token_bucket_llm, algorithm_config: {tokens_per_minute: 60, default_max_completion: 100, max_prompt_tokens: 1}}]"
	red := map[string]string{"X-Team": "red"}
	for name, c := range map[string]struct {
		spec      string
		a         asked
		cost      float64
		estimated bool
	}{
		"requests":                {"{" + breaker + "}", asked{body: chat}, 1, false},
		"tokens":                  {"{" + breaker + ", " + tokens + "}", asked{body: chat, header: red}, float64((len(chat)-len(`{"model":"gpt-4o","messages":}`))/4 + 100), true},
		"a request of no model's": {"{" + breaker + ", " + tokens + "}", asked{method: "GET", url: "/v1/models", header: red}, 0, false},
	} {
		e := c.a.of(t, policies(t, c.spec))
		l := e.Check.GetLimits()[0]
		if l.GetRule() != finding.CircuitBreaker || l.GetCost() != c.cost || l.GetEstimated() != c.estimated || l.GetBucket() != nil || l.GetOversized() ||
			l.GetBreaker().GetThreshold() != 1000 || l.GetBreaker().GetResetSeconds() != 60 || e.Limits[0].Oversized != "" {
			t.Errorf("%s: %v", name, l)
		}
	}
	key := func(team string) string {
		e := asked{body: chat, header: map[string]string{"X-Team": team}}.of(t, policies(t, "{"+breaker+", "+tokens+"}"))
		return string(e.Check.GetLimits()[0].GetKey())
	}
	if first, again := key("red"), key("red"); first == key("blue") || first != again {
		t.Error("the breaker is not one for each value of its descriptor")
	}
}
