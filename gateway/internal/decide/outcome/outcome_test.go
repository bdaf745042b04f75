package outcome

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/unloop/unloop/gateway/internal/decide/clientprofile"
	"github.com/unloop/unloop/gateway/internal/decide/evidence"
	"github.com/unloop/unloop/gateway/internal/rules/bundle"
	"github.com/unloop/unloop/gateway/internal/wire/provider/chat"
	"github.com/unloop/unloop/schemas/checkpb"
	"github.com/unloop/unloop/schemas/finding"
	"github.com/unloop/unloop/schemas/policy"
)

// caller is one whose share of a wait is short.
const caller = "caller"

// found returns a decision with findings.
func found(findings ...*checkpb.Finding) *checkpb.Decision {
	return passing(&checkpb.Decision{Findings: findings})
}

// passing sets when the request of a decision passes, as detectors do.
func passing(d *checkpb.Decision) *checkpb.Decision {
	for _, f := range d.GetFindings() {
		d.RetryAfterMs = max(d.RetryAfterMs, uint64(f.GetRetryAfterMs()))
		switch f.GetDetector() {
		case finding.Tool, finding.Cycle, finding.Semantic:
			d.Lasting = d.Lasting || f.GetAction().Stops()
		}
	}
	for _, v := range d.GetLimits() {
		d.RetryAfterMs = max(d.RetryAfterMs, v.GetRetryAfterMs())
		d.Lasting = d.Lasting || v.GetAction().Stops() && v.GetRetryAfterMs() == 0
	}
	return d
}

// finding returns a prompt detector's finding.
func foundWith(action checkpb.Action) *checkpb.Finding {
	return &checkpb.Finding{
		Policy: "p", Detector: finding.Prompt, Action: action, HitCount: 6, WindowSeconds: 60, Fingerprint: []byte{0xab}, LoopId: "l", DelayMs: 500,
	}
}

// ruled returns a case with rules and the verdicts on them.
func ruled(limits []evidence.Limit, verdicts ...*checkpb.LimitVerdict) *Case {
	return &Case{Evidence: evidence.Evidence{Limits: limits}, Decision: passing(&checkpb.Decision{Limits: verdicts}), Caller: caller, Policies: &bundle.Set{}}
}

// Rules by their algorithms.
var (
	byRequests = &bundle.Limit{Rule: &policy.Rule{TokenBucket: &policy.TokenBucket{}}}
	byTokens   = &bundle.Limit{Rule: &policy.Rule{TokenBucketLLM: &policy.TokenBucketLLM{}}}
	byDollars  = &bundle.Limit{Rule: &policy.Rule{CostBased: &policy.CostBased{CostKey: "usd"}}}
)

func limitOf(rule *bundle.Limit, name string) evidence.Limit {
	return evidence.Limit{Rule: rule, Wire: &checkpb.Limit{Policy: "p", Rule: name, Key: []byte("k")}}
}

// set returns the headers that an outcome sets on an answer.
func set(o *Outcome) map[string]string {
	h := http.Header{}
	o.Headers.Put(h)
	out := map[string]string{}
	for name := range h {
		out[name] = strings.Join(h.Values(name), " | ")
	}
	return out
}

func TestWhatIsDoneFollowsFromFindingsAndRules(t *testing.T) {
	t.Parallel()
	reject := &checkpb.LimitVerdict{Action: checkpb.Action_ACTION_REJECT, Limit: 10, RetryAfterMs: 1500, WindowSeconds: 10, ResetMs: 2000}
	broken := &checkpb.Finding{Policy: "p", Detector: finding.Request, Action: checkpb.Action_ACTION_BREAK, HitCount: 9, WindowSeconds: 60, RetryAfterMs: 7000}
	tool := &checkpb.Finding{
		Policy: "p", Detector: finding.Tool, Action: checkpb.Action_ACTION_REJECT, Message: "read was called 9 times.", LoopId: "l", Tool: "read",
		Answer: checkpb.Answer_ANSWER_SYNTHETIC, HitCount: 9,
	}
	shadow := foundWith(checkpb.Action_ACTION_BREAK)
	shadow.Shadow = true
	both := ruled([]evidence.Limit{limitOf(byTokens, "r")}, reject)
	both.Decision.Findings = []*checkpb.Finding{broken}
	equal := ruled([]evidence.Limit{limitOf(byTokens, "r")}, reject)
	equal.Decision.Findings = []*checkpb.Finding{foundWith(checkpb.Action_ACTION_REJECT)}
	together := foundWith(checkpb.Action_ACTION_REJECT)
	together.Rule = "sessions-together"
	for name, c := range map[string]struct {
		of      *Case
		label   string
		status  int
		headers map[string]string
		says    string // part of the error, or of the answer
	}{
		"nothing": {&Case{}, "allow", 0, map[string]string{}, ""},
		"a warning": {
			&Case{Decision: found(foundWith(checkpb.Action_ACTION_WARN))}, "warn", 0,
			map[string]string{"X-Loop-Action": "warn", "X-Loop-Reason": "loop_detected", "X-Loop-Detector": "prompt", "X-Loop-Count": "6"}, "",
		},
		"a policy in shadow": {&Case{Decision: found(shadow)}, "allow", 0, map[string]string{"X-Loop-Would": "break"}, ""},
		"an exemption":       {&Case{Exempt: "tenant"}, "exempt", 0, map[string]string{"X-Loop-Exempt": "tenant"}, ""},
		"no decision":        {&Case{Degraded: "timeout"}, "degraded", 0, map[string]string{"X-Loop-Degraded": "timeout"}, ""},
		"no semantic result": {
			&Case{Decision: &checkpb.Decision{SemanticMissed: true}, Evidence: evidence.Evidence{FailClosed: true}}, "allow", 0,
			map[string]string{"X-Loop-Degraded": "semantic"}, "",
		},
		"no decision, and the policy fails closed": {
			&Case{Degraded: "timeout", Evidence: evidence.Evidence{FailClosed: true}}, "fail-closed", 503,
			map[string]string{"X-Loop-Degraded": "timeout", "Retry-After": "1"}, "loop_check_unavailable",
		},
		"a loop": {
			&Case{Decision: found(broken), Caller: caller}, "break", 429,
			map[string]string{
				"X-Loop-Action": "break", "X-Loop-Reason": "loop_detected", "X-Loop-Detector": "request", "X-Loop-Count": "9",
				"Retry-After": "7", "X-Should-Retry": "false",
			}, "Stopped by Unloop: the same request 9 times within 60 seconds (recursive_loop_detected; detector request, policy p). Change the request, or wait 7 seconds.",
		},
		"a loop of tool calls, for Fairvisor's clients": {
			&Case{Decision: found(tool), Policies: &bundle.Set{FairvisorHeaders: true}}, "reject", 429,
			map[string]string{
				"X-Loop-Action": "reject", "X-Loop-Reason": "loop_detected", "X-Loop-Detector": "tool", "X-Loop-Count": "9",
				"X-Should-Retry": "false", "X-Fairvisor-Reason": "loop_detected",
			}, "Stopped by Unloop: the same tool call (read) with the same result 9 times (recursive_loop_detected; detector tool, policy p). " +
				"See `unloop loops show l`, let through with `unloop loops release l`.",
		},
		"a loop that is answered in the model's place": {
			&Case{Decision: found(tool), Answerable: true, Reject: policy.RejectSynthetic}, "reject", 200,
			map[string]string{
				"X-Loop-Action": "reject", "X-Loop-Reason": "loop_detected", "X-Loop-Detector": "tool", "X-Loop-Count": "9", "X-Loop-Answer": "synthetic",
			}, "Stopped by Unloop: the same tool call (read) with the same result 9 times (recursive_loop_detected). The model was not asked. " +
				"The results of these calls are in this conversation already, after each call: go on from the newest of them, take a different approach, " +
				"or say what stands in the way. See `unloop loops show l`, let through with `unloop loops release l`.",
		},
		"a rule": {
			ruled([]evidence.Limit{limitOf(byTokens, "r")}, reject), "limit", 429,
			map[string]string{
				"Ratelimit-Policy": `"p/r";q=10;w=10;qu="tokens"`, "Ratelimit": `"p/r";r=0;t=2`,
				"Ratelimit-Limit": "10", "Ratelimit-Remaining": "0", "Ratelimit-Reset": "2",
				"X-Loop-Rule": "p/r", "X-Loop-Rule-Action": "reject", "X-Loop-Rule-Reason": "tpm_exceeded", "Retry-After": "2",
			}, "Stopped by Unloop: rule r of policy p (rate_limit_exceeded, tpm_exceeded) allows 10, and 0 are left. Wait 2 seconds.",
		},
		"a rule and a stronger loop": {both, "break", 429, nil, "recursive_loop_detected"},
		"a rule and an equal loop":   {equal, "limit", 429, nil, "Wait 60 seconds."},
		"a prompt that sessions share": {
			&Case{Decision: found(together)}, "reject", 429, nil, "the same prompt from this caller's sessions 6 times within 60 seconds",
		},
	} {
		o := Decide(c.of)
		if o.Label != c.label || o.Status != c.status || o.Forwards() != (c.status == 0) {
			t.Errorf("%s: %s with status %d, want %s with %d", name, o.Label, o.Status, c.label, c.status)
		}
		if diff := cmp.Diff(c.headers, set(&o)); c.headers != nil && diff != "" {
			t.Errorf("%s: headers (-want +got):\n%s", name, diff)
		}
		text := o.Text
		if c.status >= 400 {
			r := o.Refusal()
			if text = r.Message; r.Status != c.status || !strings.HasPrefix(text, "Stopped by Unloop: ") || !strings.Contains(text, r.Code) {
				t.Errorf("%s: refused with %d %s, %s", name, r.Status, r.Code, text)
			}
			text = string(o.Body(nil, chat.Chat{}))
		}
		if !strings.Contains(text, c.says) || c.says == "" && text != "" {
			t.Errorf("%s: says %q, want %q", name, text, c.says)
		}
	}
}

func TestThrottledRequestsWaitOrAreRefused(t *testing.T) {
	t.Parallel()
	slow := &checkpb.LimitVerdict{Action: checkpb.Action_ACTION_THROTTLE, DelayMs: 1200, Limit: 5, Remaining: 1}
	both := ruled([]evidence.Limit{limitOf(byRequests, "r")}, slow)
	both.Decision.Findings = []*checkpb.Finding{foundWith(checkpb.Action_ACTION_THROTTLE)}
	both.Policies.FairvisorHeaders = true
	for name, c := range map[string]struct {
		of      *Case
		wait    Wait
		crowded map[string]string
		code    string
	}{
		"nobody waits": {&Case{}, Wait{}, nil, ""},
		"a finding": {
			&Case{Decision: found(foundWith(checkpb.Action_ACTION_THROTTLE)), Caller: caller}, Wait{500 * time.Millisecond, "p\x00\xab"},
			map[string]string{
				"X-Loop-Action": "reject", "X-Loop-Reason": "loop_detected", "X-Loop-Detector": "prompt", "X-Loop-Count": "6",
				"Retry-After": "60", "X-Should-Retry": "false",
			}, codeLoop,
		},
		"a rule": {
			ruled([]evidence.Limit{limitOf(byRequests, "r")}, slow), Wait{1200 * time.Millisecond, "p\x00k"},
			map[string]string{
				"Ratelimit-Policy": `"p/r";q=5;w=1`, "Ratelimit": `"p/r";r=1;t=0`, "Ratelimit-Limit": "5", "Ratelimit-Remaining": "1", "Ratelimit-Reset": "0",
				"X-Loop-Rule": "p/r", "X-Loop-Rule-Action": "throttle", "Retry-After": "2",
			}, codeLimited,
		},
		"both": {
			both, Wait{1200 * time.Millisecond, "p\x00\xab"},
			map[string]string{
				"Ratelimit-Policy": `"p/r";q=5;w=1`, "Ratelimit": `"p/r";r=1;t=0`, "Ratelimit-Limit": "5", "Ratelimit-Remaining": "1", "Ratelimit-Reset": "0",
				"X-Loop-Rule": "p/r", "X-Loop-Rule-Action": "throttle", "X-Fairvisor-Warning": "budget_throttle",
				"X-Loop-Action": "reject", "X-Loop-Reason": "loop_detected", "X-Loop-Detector": "prompt", "X-Loop-Count": "6",
				"Retry-After": "60", "X-Should-Retry": "false", "X-Fairvisor-Reason": "loop_detected",
			}, codeLoop,
		},
	} {
		o := Decide(c.of)
		if o.Wait != c.wait || !o.Forwards() {
			t.Errorf("%s: waits %+v, want %+v", name, o.Wait, c.wait)
		}
		if c.crowded == nil {
			continue
		}
		refused := o.Crowded()
		if diff := cmp.Diff(c.crowded, set(&refused)); diff != "" {
			t.Errorf("%s: headers where too many wait (-want +got):\n%s", name, diff)
		}
		if refused.Label != "reject" || refused.Status != 429 || refused.Wait != (Wait{}) || refused.Refusal().Code != c.code {
			t.Errorf("%s: where too many wait: %+v, %+v", name, refused, refused.Refusal())
		}
		if f := o.Finding; f != nil && (f.GetAction() != checkpb.Action_ACTION_THROTTLE || set(&o)["X-Loop-Delay-Ms"] != "500") {
			t.Errorf("%s: the first outcome changed: %v", name, f)
		}
	}
	o := Decide(both)
	if h := set(&o); h["X-Fairvisor-Loop-Delay"] != "500" {
		t.Errorf("Fairvisor's clients are told %v", h)
	}
}

func TestRequestThatHasNoAnswerInTheModelsPlaceIsRefused(t *testing.T) {
	t.Parallel()
	f := foundWith(checkpb.Action_ACTION_REJECT)
	f.Answer, f.Detector, f.LoopId = checkpb.Answer_ANSWER_SYNTHETIC, finding.Cycle, ""
	o := Decide(&Case{Decision: found(f), Answerable: true, Reject: policy.RejectSynthetic})
	if o.Text == "" || strings.Contains(o.Text, "unloop loops") {
		t.Errorf("says %q", o.Text)
	}
	if o = o.Refused(); o.Text != "" || o.Status != 429 || o.Refusal().Code != codeLoop || set(&o)["X-Loop-Answer"] != "" {
		t.Errorf("%+v", o)
	}
}

func TestRefusalsOfAStandingBlockComeFromTheirTemplate(t *testing.T) {
	t.Parallel()
	f := foundWith(checkpb.Action_ACTION_REJECT)
	f.BlockedMs = 30_000
	template := &Template{}
	for times, status := range []int{429, 429, 400, 400} {
		sender := clientprofile.Sender{Times: times / 2}
		o := Decide(&Case{Decision: found(f), Caller: caller, Template: template, Sender: sender})
		plain := Decide(&Case{Decision: found(f), Caller: caller, Sender: sender})
		if got, want := string(o.Body(nil, chat.Chat{})), string(plain.Body(nil, chat.Chat{})); got != want || o.Status != status {
			t.Errorf("%d %s, want %d %s", o.Status, got, status, want)
		}
		if newest := template.newest.Load(); newest.status != status || len(newest.pieces) < 3 {
			t.Errorf("the template is for %d, in %d pieces", newest.status, len(newest.pieces))
		}
	}
}

func TestRulesSayWhatTheyAllow(t *testing.T) {
	t.Parallel()
	large := limitOf(byTokens, "r")
	large.Oversized, large.Wire.Oversized = "prompt_tokens_exceeded", true
	named := limitOf(&bundle.Limit{Rule: &policy.Rule{CostBased: &policy.CostBased{CostKey: "header:x-cost"}}}, "r")
	budget, breaker := checkpb.Exceeded_EXCEEDED_BUDGET, checkpb.Exceeded_EXCEEDED_BREAKER
	for name, c := range map[string]struct {
		limit   evidence.Limit
		verdict *checkpb.LimitVerdict
		reason  string
		says    string
		unit    string
	}{
		"requests": {
			limitOf(byRequests, "r"), &checkpb.LimitVerdict{Limit: 2, RetryAfterMs: 1000}, "rate_limit_exceeded",
			"Stopped by Unloop: rule r of policy p (rate_limit_exceeded) allows 2, and 0 are left. Wait 1 seconds.", `"p/r";q=2;w=1`,
		},
		"tokens a day": {
			limitOf(byTokens, "r"), &checkpb.LimitVerdict{Limit: 50, Remaining: 1.239, RetryAfterMs: 1, Exceeded: budget, WindowSeconds: 86400}, "tpd_exceeded",
			"Stopped by Unloop: rule r of policy p (rate_limit_exceeded, tpd_exceeded) allows 50, and 1.23 are left. Wait 1 seconds.", `"p/r";q=50;w=86400;qu="tokens"`,
		},
		"dollars": {
			limitOf(byDollars, "r"), &checkpb.LimitVerdict{Limit: 0.5, Remaining: 0.25, RetryAfterMs: 1}, "budget_exceeded",
			"Stopped by Unloop: rule r of policy p (rate_limit_exceeded, budget_exceeded) allows $0.50, and $0.25 are left. Wait 1 seconds.", `"p/r";q=50;w=1;qu="us-cents"`,
		},
		"a cost that requests name": {
			named, &checkpb.LimitVerdict{Limit: 7, RetryAfterMs: 1}, "budget_exceeded",
			"Stopped by Unloop: rule r of policy p (rate_limit_exceeded, budget_exceeded) allows 7, and 0 are left. Wait 1 seconds.", `"p/r";q=7;w=1`,
		},
		"a request that is too large": {
			large, &checkpb.LimitVerdict{Limit: 1}, "prompt_tokens_exceeded",
			"Stopped by Unloop: rule r of policy p (rate_limit_exceeded, prompt_tokens_exceeded) never allows a request of this size.", `"p/r";q=1;w=1;qu="tokens"`,
		},
		"a breaker that closes": {
			limitOf(byRequests, "r"), &checkpb.LimitVerdict{Limit: 9, RetryAfterMs: 2000, Exceeded: breaker}, "circuit_breaker_open",
			"Stopped by Unloop: the circuit breaker of policy p is open (circuit_breaker_open), since 9 were spent within a minute. It closes in 2 seconds.", `"p/r";q=9;w=1`,
		},
		"a breaker that stays open": {
			limitOf(byRequests, "r"), &checkpb.LimitVerdict{Limit: 9, Exceeded: breaker, LoopId: "l"}, "circuit_breaker_open",
			"Stopped by Unloop: the circuit breaker of policy p is open (circuit_breaker_open), since 9 were spent within a minute. Close it with `unloop loops release l`.",
			`"p/r";q=9;w=1`,
		},
		"a name that no header can hold": {
			limitOf(byRequests, "r\"\n"), &checkpb.LimitVerdict{Limit: 2, RetryAfterMs: 1}, "rate_limit_exceeded",
			"Stopped by Unloop: rule r\"\n of policy p (rate_limit_exceeded) allows 2, and 0 are left. Wait 1 seconds.", `"p/r__";q=2;w=1`,
		},
	} {
		c.verdict.Action = checkpb.Action_ACTION_REJECT
		x := ruled([]evidence.Limit{c.limit}, c.verdict)
		x.Policies.FairvisorHeaders = true
		o := Decide(x)
		h := set(&o)
		if h["X-Loop-Rule-Reason"] != c.reason || h["X-Fairvisor-Reason"] != c.reason || h["Ratelimit-Policy"] != c.unit {
			t.Errorf("%s: headers %v", name, h)
		}
		if got := o.Refusal().Message; got != c.says {
			t.Errorf("%s:\n%s, want\n%s", name, got, c.says)
		}
		if inVain := c.verdict.GetRetryAfterMs() == 0; (h["X-Should-Retry"] == "false") != inVain || (h["Retry-After"] == "") != inVain {
			t.Errorf("%s: headers %v", name, h)
		}
	}
}

func TestStrongestRuleDecides(t *testing.T) {
	t.Parallel()
	verdict := func(action checkpb.Action, retryMs uint64, delayMs uint32) *checkpb.LimitVerdict {
		return &checkpb.LimitVerdict{Action: action, RetryAfterMs: retryMs, DelayMs: delayMs, Limit: 10}
	}
	const warn, throttle, reject = checkpb.Action_ACTION_WARN, checkpb.Action_ACTION_THROTTLE, checkpb.Action_ACTION_REJECT
	for name, c := range map[string]struct {
		first, second *checkpb.LimitVerdict
		want          string
	}{
		"by its action":                     {verdict(warn, 0, 0), verdict(throttle, 0, 1), "second"},
		"by its wait":                       {verdict(reject, 9000, 0), verdict(reject, 1000, 0), "first"},
		"by its delay":                      {verdict(throttle, 0, 5), verdict(throttle, 0, 9), "second"},
		"since waiting is in vain":          {verdict(reject, 9000, 0), verdict(reject, 0, 0), "second"},
		"since the other allows":            {verdict(checkpb.Action_ACTION_ALLOW, 0, 0), verdict(warn, 0, 0), "second"},
		"the first of equal ones, as it is": {verdict(warn, 0, 0), verdict(warn, 0, 0), "first"},
	} {
		o := Decide(ruled([]evidence.Limit{limitOf(byRequests, "first"), limitOf(byRequests, "second")}, c.first, c.second))
		if got := set(&o)["X-Loop-Rule"]; got != "p/"+c.want {
			t.Errorf("%s: %s decides, want %s", name, got, c.want)
		}
	}
	shadow := limitOf(byRequests, "r")
	shadow.Wire.Shadow = true
	o := Decide(ruled([]evidence.Limit{shadow}, verdict(reject, 1, 0)))
	if diff := cmp.Diff(map[string]string{"X-Loop-Would": "reject"}, set(&o)); diff != "" || !o.Forwards() {
		t.Errorf("a rule in shadow (-want +got):\n%s", diff)
	}
}

func TestRateLimitsStandBesideTheUpstreams(t *testing.T) {
	t.Parallel()
	scarce := &checkpb.LimitVerdict{Limit: 10, Remaining: 1}
	o := Decide(ruled([]evidence.Limit{limitOf(byRequests, "a"), limitOf(byRequests, "b")}, &checkpb.LimitVerdict{Limit: 10, Remaining: 9}, scarce))
	h := http.Header{"Ratelimit": {"theirs"}, "Ratelimit-Limit": {"theirs"}}
	o.Headers.Put(h)
	want := http.Header{
		"Ratelimit": {"theirs", `"p/a";r=9;t=0`, `"p/b";r=1;t=0`}, "Ratelimit-Policy": {`"p/a";q=10;w=1`, `"p/b";q=10;w=1`},
		"Ratelimit-Limit": {"10"}, "Ratelimit-Remaining": {"1"}, "Ratelimit-Reset": {"0"},
	}
	if diff := cmp.Diff(want, h); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestWaitIsTheTimeUntilTheBlockEnds(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		f    *checkpb.Finding
		want string
	}{
		"the detector's time":         {&checkpb.Finding{Detector: finding.Request, RetryAfterMs: 9500, BlockedMs: 1}, "10"},
		"the cooldown":                {&checkpb.Finding{Detector: finding.Request, BlockedMs: 3000, WindowSeconds: 60}, "3"},
		"the window":                  {&checkpb.Finding{Detector: finding.Prompt, WindowSeconds: 60}, "60"},
		"a second":                    {&checkpb.Finding{Detector: finding.Users}, "1"},
		"some more, by the caller":    {&checkpb.Finding{Detector: finding.Prompt, RetryAfterMs: 100_000}, "104"},
		"none, since it does not end": {&checkpb.Finding{Detector: finding.Semantic, RetryAfterMs: 9000}, ""},
	} {
		c.f.Action = checkpb.Action_ACTION_REJECT
		o := Decide(&Case{Decision: found(c.f), Caller: caller})
		if got := set(&o)["Retry-After"]; got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

func TestHintNeedsItsPolicy(t *testing.T) {
	t.Parallel()
	b, err := policy.Parse([]byte("bundle_version: 1\npolicies: [{id: p, spec: {prompt: {}, hint: {text: Stop., position: result}}}]\n"))
	if err != nil {
		t.Fatal(err)
	}
	policies, err := bundle.Compile(b)
	if err != nil {
		t.Fatal(err)
	}
	gone := foundWith(checkpb.Action_ACTION_HINT)
	gone.Policy = "gone"
	for name, c := range map[string]struct {
		f    *checkpb.Finding
		want string
	}{
		"of a policy in force":   {foundWith(checkpb.Action_ACTION_HINT), "Stop. at result"},
		"of a policy that ended": {gone, " at "},
		"for another action":     {foundWith(checkpb.Action_ACTION_WARN), " at "},
	} {
		o := Decide(&Case{Decision: found(c.f), Policies: policies})
		if text, position := o.Hint(time.Time{}); text+" at "+position != c.want {
			t.Errorf("%s: %q at %q, want %q", name, text, position, c.want)
		}
	}
}

func TestFindingsAreOrderedByWhatTheyDo(t *testing.T) {
	t.Parallel()
	weak, strong := foundWith(checkpb.Action_ACTION_WARN), foundWith(checkpb.Action_ACTION_REJECT)
	long, rounds, high := foundWith(checkpb.Action_ACTION_REJECT), foundWith(checkpb.Action_ACTION_REJECT), foundWith(checkpb.Action_ACTION_REJECT)
	named := foundWith(checkpb.Action_ACTION_REJECT)
	named.Detector, named.Tool = finding.Tool, "bash"
	long.BlockedMs, rounds.Rule, rounds.HitCount, high.HitCount = 1000, finding.IdenticalRounds, 100, 7
	for name, c := range map[string]struct{ first, second *checkpb.Finding }{
		"by the action":       {strong, weak},
		"by the block":        {long, high},
		"by what names calls": {strong, rounds},
		"by the count":        {high, strong},
		"by the tool's name":  {named, long},
	} {
		for _, d := range []*checkpb.Decision{found(c.first, c.second), found(c.second, c.first)} {
			if got := Strongest(d); got != c.first {
				t.Errorf("%s: %v", name, got)
			}
		}
	}
	if Strongest(nil) != nil {
		t.Error("there is a finding in no decision")
	}
}

func TestARequestThatCannotBeCheckedForNowIsSentAgain(t *testing.T) {
	t.Parallel()
	for _, closed := range []bool{true, false} {
		o := Decide(&Case{Evidence: evidence.Evidence{FailClosed: closed}, Overloaded: true})
		headers := map[string][]string{}
		o.Headers.Put(headers)
		if r := o.Refusal(); o.Status != 503 || o.Label != "overloaded" || r.Code != "too_many_requests_to_check" || r.Message == "" || headers["Retry-After"] == nil {
			t.Errorf("fail closed %v: status %d, label %s, %+v, %v", closed, o.Status, o.Label, r, headers)
		}
		if d := o.Decision("id"); d.Action != "reject" || d.RetryAfterSeconds != 1 || d.Message == "" {
			t.Errorf("as a decision: %+v", d)
		}
	}
}

// What a request's own history shows does not change while the client waits.
func TestWaitingDoesNotHelpAgainstComplaints(t *testing.T) {
	t.Parallel()
	f := foundWith(checkpb.Action_ACTION_REJECT)
	f.Rule, f.HitCount, f.BlockedMs, f.RetryAfterMs = finding.Complaints, 8, 0, 0
	d, h := found(f), http.Header{}
	d.Lasting = true
	o := Decide(&Case{Decision: d, Reject: "429"})
	o.Headers.Put(h)
	if h.Get("Retry-After") != "" || !strings.Contains(o.Refusal().Message, "the same complaint about 8 answers in a row") || strings.Contains(o.Refusal().Message, "wait") {
		t.Errorf("%v, %s", o.Headers, o.Refusal().Message)
	}
	if text := nowhere.synthetic(f); !strings.Contains(text, "Do what the complaint asks for") {
		t.Error(text)
	}
}
