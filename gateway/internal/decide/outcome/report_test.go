package outcome

import (
	"net/http"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/unloop/unloop/gateway/internal/decide/evidence"
	"github.com/unloop/unloop/gateway/internal/rules/bundle"
	"github.com/unloop/unloop/schemas/checkpb"
	"github.com/unloop/unloop/schemas/client"
)

func TestDecisionsAreReportedToTheCheckAPI(t *testing.T) {
	t.Parallel()
	checked := evidence.Evidence{Check: &checkpb.Check{RequestId: "id", Counters: []*checkpb.Counter{{Shadow: true}, {}, {}}}}
	weak, strong, shadow := foundWith(checkpb.Action_ACTION_WARN), foundWith(checkpb.Action_ACTION_THROTTLE), foundWith(checkpb.Action_ACTION_BREAK)
	weak.Policy, strong.Message, shadow.Shadow = "a", "it repeats", true
	other := foundWith(checkpb.Action_ACTION_WARN)
	listed := func(f *checkpb.Finding) client.Finding {
		return client.Finding{
			Policy: f.GetPolicy(), Detector: "prompt", Action: f.GetAction().Label(), Shadow: f.GetShadow(), Fingerprint: "ab",
			HitCount: 6, WindowSeconds: 60, LoopID: "l", Message: f.Hint(),
		}
	}
	slow := ruled([]evidence.Limit{limitOf(byRequests, "r")}, &checkpb.LimitVerdict{Action: checkpb.Action_ACTION_THROTTLE, DelayMs: 900, Limit: 3, Remaining: 1})
	stop := ruled([]evidence.Limit{limitOf(byRequests, "r")}, &checkpb.LimitVerdict{Action: checkpb.Action_ACTION_REJECT, RetryAfterMs: 900, Limit: 3})
	for name, c := range map[string]struct {
		of   *Case
		want client.Decision
	}{
		"nothing": {&Case{}, client.Decision{Action: "allow", RequestID: "other"}},
		"counts": {
			&Case{Evidence: checked, Decision: &checkpb.Decision{HitCounts: []uint32{9, 3, 4, 8}}},
			client.Decision{Action: "allow", HitCount: 4, RequestID: "id"},
		},
		"findings, the strongest first and shadow last": {
			&Case{Evidence: checked, Decision: found(shadow, other, weak, strong)},
			client.Decision{
				Action: "throttle", Reason: "loop_detected", Message: "Seen by Unloop: the same prompt 6 times within 60 seconds (recursive_loop_detected; detector prompt, policy p). See `unloop loops show l`.", LoopID: "l",
				HitCount: 6, DelayMS: 500, RequestID: "id", Findings: []client.Finding{listed(strong), listed(weak), listed(other), listed(shadow)},
			},
		},
		"a loop": {
			&Case{Decision: found(foundWith(checkpb.Action_ACTION_REJECT))},
			client.Decision{
				Action: "reject", Reason: "loop_detected", LoopID: "l", HitCount: 6, DelayMS: 500, RetryAfterSeconds: 60, RequestID: "other",
				Message: "Stopped by Unloop: the same prompt 6 times within 60 seconds (recursive_loop_detected; " +
					"detector prompt, policy p). Change the request, or wait 60 seconds. See `unloop loops show l`, let through with `unloop loops release l`.",
				Findings: []client.Finding{listed(foundWith(checkpb.Action_ACTION_REJECT))},
			},
		},
		"a rule that throttles": {slow, client.Decision{
			Action: "throttle", Reason: "rate_limit_exceeded", Message: "Seen by Unloop: rule r of policy p allows 3, and 1 are left.", DelayMS: 900, RequestID: "other",
		}},
		"a rule that rejects": {stop, client.Decision{
			Action: "reject", Reason: "rate_limit_exceeded", RetryAfterSeconds: 1, RequestID: "other",
			Message: "Stopped by Unloop: rule r of policy p (rate_limit_exceeded) allows 3, and 0 are left. Wait 1 seconds.",
		}},
		"an exemption": {&Case{Exempt: "tenant"}, client.Decision{Action: "allow", Reason: "exempt", RequestID: "other"}},
		"no decision": {
			&Case{Degraded: "timeout", Evidence: evidence.Evidence{FailClosed: true}},
			client.Decision{
				Action: "reject", Reason: "unchecked", Degraded: "timeout", RetryAfterSeconds: 1, RequestID: "other",
				Message: "Stopped by Unloop: the request could not be checked for loops (loop_check_unavailable, timeout), which a policy requires.",
			},
		},
	} {
		if c.want.Findings == nil {
			c.want.Findings = []client.Finding{}
		}
		o := Decide(c.of)
		if diff := cmp.Diff(c.want, o.Decision("other")); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestDecisionsAreReportedToToolRunners(t *testing.T) {
	t.Parallel()
	f := foundWith(checkpb.Action_ACTION_REJECT)
	f.Message = "read was called 9 times"
	o := Decide(&Case{Decision: &checkpb.Decision{Findings: []*checkpb.Finding{f}, ToolReports: []*checkpb.ToolReport{
		{Streak: 9, Shadow: true}, {Streak: 2, BackoffSeconds: 4, Calls: 7}, {Streak: 1},
	}}})
	want := client.ToolDecision{
		Action: "block", Reason: "loop_detected", Message: "recursive_loop_detected: read was called 9 times", LoopID: "l", RequestID: "id",
		BackoffSeconds: 4, Counts: client.ToolCounts{Streak: 2, Calls: 7}, Findings: o.Decision("id").Findings,
	}
	if diff := cmp.Diff(want, o.ToolDecision("id")); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	for action, want := range map[string]string{"allow": "allow", "warn": "warn", "hint": "warn", "throttle": "warn", "reject": "block", "break": "break"} {
		if got := RunAction(action); got != want {
			t.Errorf("%s is %s for a tool's call, want %s", action, got, want)
		}
	}
}

func TestReportIsNoRefusal(t *testing.T) {
	t.Parallel()
	loop := found(foundWith(checkpb.Action_ACTION_REJECT))
	synthetic := foundWith(checkpb.Action_ACTION_REJECT)
	synthetic.Answer = checkpb.Answer_ANSWER_SYNTHETIC
	limited := ruled([]evidence.Limit{limitOf(byRequests, "r")}, &checkpb.LimitVerdict{Action: checkpb.Action_ACTION_REJECT, Limit: 3, RetryAfterMs: 900})
	limited.Policies = &bundle.Set{FairvisorHeaders: true}
	for name, c := range map[string]*Case{
		"loop":                        {Decision: loop, Caller: caller},
		"answer in the model's place": {Decision: found(synthetic), Caller: caller, Answerable: true},
		"rule":                        limited,
		"unchecked":                   {Evidence: evidence.Evidence{FailClosed: true}, Degraded: "timeout"},
	} {
		o := Decide(c)
		if o.Status == 0 {
			t.Errorf("%s: forwarded", name)
		}
		h := http.Header{}
		o.ReportHeaders().Put(h)
		if len(h) == 0 {
			t.Errorf("%s: no headers", name)
		}
		for _, header := range []string{"Retry-After", "X-Should-Retry", "X-Loop-Answer", "X-Fairvisor-Reason"} {
			if h.Get(header) != "" {
				t.Errorf("%s: %s: %s", name, header, h.Get(header))
			}
		}
	}
}
