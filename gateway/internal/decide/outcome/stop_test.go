package outcome

import (
	"strconv"
	"testing"

	"github.com/unloop/unloop/gateway/internal/decide/evidence"
	"github.com/unloop/unloop/gateway/internal/rules/bundle"
	"github.com/unloop/unloop/schemas/checkpb"
	"github.com/unloop/unloop/schemas/finding"
)

// Whatever stops a request, alone or together with something else, its error, its headers
// and the check API name the same cause and the same wait.
func TestAllAnswersNameTheSameStop(t *testing.T) {
	t.Parallel()
	prompt := &checkpb.Finding{Policy: "p", Detector: finding.Prompt, Action: checkpb.Action_ACTION_REJECT, HitCount: 6, Threshold: 5, WindowSeconds: 60, BlockedMs: 30_000, RetryAfterMs: 60_000}
	tool := &checkpb.Finding{Policy: "p", Detector: finding.Tool, Tool: "ls", Action: checkpb.Action_ACTION_BREAK, HitCount: 9}
	limit := &checkpb.LimitVerdict{Action: checkpb.Action_ACTION_REJECT, RetryAfterMs: 90_000, Limit: 10}
	causes := map[string]func(*Case){
		"prompt": func(c *Case) {
			c.Decision.Findings, c.Decision.RetryAfterMs = append(c.Decision.Findings, prompt), max(c.Decision.GetRetryAfterMs(), 60_000)
		},
		"tool": func(c *Case) {
			c.Decision.Findings, c.Decision.Lasting = append(c.Decision.Findings, tool), true
		},
		"rule": func(c *Case) {
			c.Limits, c.Decision.Limits = []evidence.Limit{limitOf(byRequests, "r")}, []*checkpb.LimitVerdict{limit}
			c.Decision.RetryAfterMs = max(c.Decision.GetRetryAfterMs(), 90_000)
		},
		"overload": func(c *Case) { c.Overloaded = true },
		"no check": func(c *Case) { c.Degraded, c.FailClosed = "timeout", true },
	}
	for one, add := range causes {
		for two, also := range causes {
			c := &Case{Decision: &checkpb.Decision{}, Caller: caller, Policies: &bundle.Set{}}
			add(c)
			if two != one {
				also(c)
			}
			o := Decide(c)
			s, d, header := o.Stop(), o.Decision(""), ""
			for i := 0; i < len(o.Headers); i += 2 {
				if o.Headers[i] == "Retry-After" {
					header = o.Headers[i+1]
				}
			}
			want := ""
			if s.Wait > 0 {
				want = strconv.Itoa(s.Wait)
			}
			if !s.Action.Stops() || header != want || d.RetryAfterSeconds != s.Wait {
				t.Errorf("%s and %s: %+v, but Retry-After %q and %d in the decision", one, two, s, header, d.RetryAfterSeconds)
			}
			if r := o.Refusal(); r.Message != s.Message || r.Code != s.Code || d.Message != s.Message || d.Reason != s.Reason || d.Action != s.Action.Label() {
				t.Errorf("%s and %s: %+v, but the error says %q, and the decision %q", one, two, s, r.Message, d.Message)
			}
		}
	}
}
