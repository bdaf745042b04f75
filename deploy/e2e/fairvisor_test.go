package e2e

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"google.golang.org/protobuf/proto"

	"github.com/unloop/unloop/schemas"
	"github.com/unloop/unloop/schemas/checkpb"
)

// compatible is a bundle of one policy that keeps Fairvisor's ways.
func compatible(spec string) string {
	return "bundle_version: 1\ncompat: [fairvisor]\ntrusted_proxies: [127.0.0.0/8]\npolicies:\n  - id: limits\n    spec:\n      selector: {pathPrefix: /v1/}\n" + indent(spec, 6)
}

// decisionOn is a question about a request of another gateway's.
func decisionOn(c call) call {
	asked := call{http.MethodPost, "/v1/decision", c.body, c.header.Clone()}
	return asked.with("X-Original-Method", c.method).with("X-Original-URI", c.path).with("X-Original-Host", "api.example.com")
}

func TestDecisionIsAnsweredAndNeverForwarded(t *testing.T) {
	t.Parallel()
	upstream := serve(t, greeting)
	url := start(t, upstream.url, policies(t, `
bundle_version: 1
compat: [fairvisor]
kill_switches: [{scope_key: "header:x-org", scope_value: bad}]
policies:
  - id: limits
    spec:
      selector: {pathExact: /v1/chat/completions, methods: [POST], hosts: [api.example.com]}
      tool: {block_answer: synthetic}
      rules:
        - {name: few, limit_keys: ["header:x-org"], algorithm: token_bucket, algorithm_config: {rps: 0.001, burst: 2}}
`)).URL()
	asked := decisionOn(unique()).with("X-Org", "acme")
	for n, want := range []int{200, 200, 429} {
		a := send(t, url, asked)
		if a.status != want || a.header.Get("RateLimit-Limit") != "2" || want == 200 && (a.header.Get("RateLimit-Remaining") != fmt.Sprint(1-n) || len(a.body) != 0) {
			t.Errorf("decision %d: %d %v %s", n, a.status, a.header, a.body)
		}
		if want == 429 && (a.header.Get("X-Fairvisor-Reason") != "rate_limit_exceeded" || a.header.Get("Retry-After") == "") {
			t.Errorf("rejected: %v", a.header)
		}
	}
	if a := send(t, url, asked.with("X-Org", "bad")); a.status != 429 || a.header.Get("X-Fairvisor-Reason") != "kill_switch" || a.header.Get("Retry-After") != "3600" {
		t.Errorf("killed: %d %v", a.status, a.header)
	}
	for name, c := range map[string]call{
		"another path": asked.with("X-Original-URI", "/v1/models"), "another method": asked.with("X-Original-Method", "GET"), "another host": asked.with("X-Original-Host", "b"),
	} {
		if a := send(t, url, c); a.status != http.StatusOK || a.header.Get("RateLimit-Limit") != "" {
			t.Errorf("%s: %d %v", name, a.status, a.header)
		}
	}
	for name, c := range map[string]call{
		"no path": asked.with("X-Original-URI", "no path"), "our own path": asked.with("X-Original-URI", "/unloop/v1/check"), "no method": asked.with("X-Original-Method", "a b"),
	} {
		if a := send(t, url, c); a.status != http.StatusBadRequest {
			t.Errorf("%s: %d", name, a.status)
		}
	}
	get := asked
	get.method = http.MethodGet
	if a := send(t, url, get); a.status != http.StatusMethodNotAllowed {
		t.Errorf("GET: %d", a.status)
	}
	if got := upstream.Requests(); len(got) != 0 {
		t.Errorf("the upstream saw %d decisions", len(got))
	}
}

// spends has the example of Fairvisor: the breaker opens at 1,000 a minute, here at
// ten requests that cost 100 each.
const spends = `
circuit_breaker: {enabled: true, spend_rate_threshold_per_minute: 1000, action: reject, alert: true, auto_reset_after_minutes: %s}
rules:
  - {name: budget, limit_keys: ["header:x-org"], algorithm: cost_based, algorithm_config: {budget: 10000000, period: 7d, fixed_cost: 100, staged_actions: [{threshold_percent: 100, action: reject}]}}
`

func TestCircuitBreakerOpensAndCloses(t *testing.T) {
	t.Parallel()
	var c clock
	s := start(t, echo(t), c.set, policies(t, compatible(fmt.Sprintf(spends, "5"))))
	acme := func(c call) call { return c.with("X-Org", "acme") }
	if diff := cmp.Diff(ok(9, limited, limited), uniques(t, s.URL(), 11, acme)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	a := send(t, s.URL(), acme(unique()))
	if r := a.refusal(t); r.Error.Code != "circuit_breaker_open" || a.header.Get("X-Fairvisor-Reason") != "circuit_breaker_open" || a.header.Get("Retry-After") != "300" || !strings.Contains(r.Error.Message, "300 seconds") {
		t.Errorf("open: %v %s", a.header, a.body)
	}
	if a := send(t, s.URL(), unique().with("X-Org", "other")); a.status != http.StatusOK {
		t.Errorf("another limit key: %d", a.status)
	}
	c.advance(5 * time.Minute)
	if diff := cmp.Diff(ok(9, limited), uniques(t, s.URL(), 10, acme)); diff != "" {
		t.Errorf("after five minutes (-want +got):\n%s", diff)
	}
}

func TestOperatorClosesACircuitBreaker(t *testing.T) {
	t.Parallel()
	var c clock
	s := start(t, echo(t), c.set, policies(t, compatible(fmt.Sprintf(spends, "0"))))
	acme := func(c call) call { return c.with("X-Org", "acme") }
	uniques(t, s.URL(), 10, acme)
	c.advance(48 * time.Hour)
	a := send(t, s.URL(), acme(unique()))
	id, found := strings.CutSuffix(a.refusal(t).Error.Message, "`.")
	id = id[strings.LastIndexByte(id, ' ')+1:]
	if a.status != limited || a.header.Get("Retry-After") != "" || a.header.Get("X-Should-Retry") != "false" || !found {
		t.Fatalf("two days later: %d %v %s", a.status, a.header, a.body)
	}
	body, err := proto.Marshal(&checkpb.ReleaseRequest{LoopId: id})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := connect(t, s).Request(schemas.SubjectRelease, body, time.Minute); err != nil {
		t.Fatal(err)
	}
	if a := send(t, s.URL(), acme(unique())); a.status != http.StatusOK {
		t.Errorf("after the release: %d %s", a.status, a.body)
	}
}

func TestRejectedRuleSaysWhichLimit(t *testing.T) {
	t.Parallel()
	for want, c := range map[string]struct{ rule, body string }{
		"tpm_exceeded":                    {`token_bucket_llm, algorithm_config: {tokens_per_minute: 100}`, `"max_tokens":90`},
		"tpd_exceeded":                    {`token_bucket_llm, algorithm_config: {tokens_per_minute: 1000, tokens_per_day: 100}`, `"max_tokens":90`},
		"prompt_tokens_exceeded":          {`token_bucket_llm, algorithm_config: {tokens_per_minute: 1000, max_prompt_tokens: 5}`, `"max_tokens":1`},
		"max_tokens_per_request_exceeded": {`token_bucket_llm, algorithm_config: {tokens_per_minute: 1000, max_tokens_per_request: 50}`, `"max_tokens":90`},
		"budget_exceeded":                 {`cost_based, algorithm_config: {budget: 1, period: 1d, fixed_cost: 2, staged_actions: [{threshold_percent: 100, action: reject}]}`, `"max_tokens":1`},
	} {
		url := start(t, echo(t), policies(t, compatible("rules:\n  - {name: r, limit_keys: [caller], algorithm: "+c.rule+"}"))).URL()
		a := send(t, url, chat(`{"model":"m",`+c.body+`,"messages":[{"role":"user","content":"some words, and some more of them"}]}`))
		if a.status != limited || a.header.Get("X-Fairvisor-Reason") != want || a.header.Get("X-Loop-Rule-Reason") != want ||
			a.header.Get("X-Loop-Rule") != "limits/r" || !strings.Contains(a.refusal(t).Error.Message, want) {
			t.Errorf("%s: %d %v %s", want, a.status, a.header, a.body)
		}
	}
}

func TestWarningOfARuleReachesTheClient(t *testing.T) {
	t.Parallel()
	for compat, want := range map[string]string{"": "", "compat: [fairvisor]\n": "budget_warn"} {
		url := start(t, echo(t), policies(t, compat+`bundle_version: 1
prices: {m: {input_usd_per_million: 1000, output_usd_per_million: 2000}}
policies:
  - id: limits
    spec:
      selector: {pathPrefix: /v1/}
      rules:
        - name: spend
          limit_keys: [caller]
          algorithm: cost_based
          algorithm_config: {budget: 0.9, period: 1d, cost_key: usd, staged_actions: [{threshold_percent: 40, action: warn}, {threshold_percent: 100, action: reject}]}
`)).URL()
		ask := func() answered {
			return send(t, url, chat(fmt.Sprintf(`{"model":"m","max_tokens":100,"messages":[{"role":"user","content":"%d"}]}`, asked.Add(1))))
		}
		first := ask()
		if left := first.header.Get("RateLimit-Remaining"); left < "60" || left > "70" || first.header.Get("RateLimit-Limit") != "90" || !strings.HasSuffix(first.header.Get("RateLimit-Policy"), `;qu="us-cents"`) {
			t.Errorf("in cents: %v", first.header)
		}
		if first.header.Get("X-Loop-Rule-Action") != "" {
			t.Errorf("below the stage: %v", first.header)
		}
		second := ask()
		if second.status != http.StatusOK || second.header.Get("X-Loop-Rule-Action") != "warn" || second.header.Get("X-Loop-Rule") != "limits/spend" || second.header.Get("X-Fairvisor-Warning") != want {
			t.Errorf("warned: %d %v", second.status, second.header)
		}
	}
}

func TestRulesByWhatTrustedProxiesSayOfAddresses(t *testing.T) {
	t.Parallel()
	url := start(t, echo(t), policies(t, compatible(`
rules:
  - {name: tor, limit_keys: ["ip:country"], match: {"ip:tor": "true"}, algorithm: token_bucket, algorithm_config: {rps: 0.001, burst: 1}}
  - {name: bots, limit_keys: ["ua:bot_category"], match: {"ua:bot": "true"}, algorithm: token_bucket, algorithm_config: {rps: 0.001, burst: 1}}
`))).URL()
	tor := func(c call) call { return c.with("X-Tor-Exit", "1").with("X-Country-Code", "DE") }
	bot := func(c call) call { return c.with("User-Agent", "GPTBot/1.0") }
	for name, edit := range map[string]func(call) call{"tor": tor, "bot": bot} {
		if diff := cmp.Diff(ok(1, limited), uniques(t, url, 2, edit)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	if diff := cmp.Diff(ok(3), uniques(t, url, 3, func(c call) call { return c.with("X-Tor-Exit", "0") })); diff != "" {
		t.Errorf("others (-want +got):\n%s", diff)
	}
}

// Headers are the same to Fairvisor whether their names have hyphens or underscores.
func TestHeadersWithUnderscoresAreTheSameToFairvisor(t *testing.T) {
	t.Parallel()
	url := start(t, echo(t), policies(t, `bundle_version: 1
compat: [fairvisor]
kill_switches: [{scope_key: "header:X_API_Key", scope_value: stolen}]
policies:
  - id: p
    spec:
      selector: {pathPrefix: /}
      rules: [{name: r, limit_keys: ["header:x_team_key"], algorithm: token_bucket, algorithm_config: {rps: 0.0001, burst: 1}}]
`)).URL()
	asked := func() call { return unique().with("X-Team-Key", "red") }
	if a := send(t, url, asked().with("X-API-Key", "stolen")); a.header.Get("X-Fairvisor-Reason") != "kill_switch" {
		t.Errorf("the kill switch: status %d, %v", a.status, a.header)
	}
	if a := send(t, url, asked()); a.status != http.StatusOK {
		t.Errorf("the first request of a team: status %d: %s", a.status, a.body)
	}
	if a := send(t, url, asked()); a.status != limited {
		t.Errorf("the second one: status %d", a.status)
	}
	if a := send(t, url, unique().with("X-Team-Key", "blue")); a.status != http.StatusOK {
		t.Errorf("of another team: status %d", a.status)
	}
}
