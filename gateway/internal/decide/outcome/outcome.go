// Package outcome decides what happens to a request: it is refused, answered in the model's
// place, or forwarded, perhaps after a wait or with a hint. It also returns the headers that
// tell the client why.
//
// It takes the evidence, the detectors' decision and a time, and returns values. It may not
// know the network, a clock or metrics, and has no effects.
package outcome

import (
	"strconv"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/unloop/unloop/gateway/internal/decide/clientprofile"
	"github.com/unloop/unloop/gateway/internal/decide/evidence"
	"github.com/unloop/unloop/gateway/internal/rules/bundle"
	"github.com/unloop/unloop/gateway/internal/wire/provider"
	"github.com/unloop/unloop/schemas/checkpb"
	"github.com/unloop/unloop/schemas/finding"
	"github.com/unloop/unloop/schemas/policy"
)

// Case is a request with its evidence and the decision on it.
type Case struct {
	evidence.Evidence
	Decision *checkpb.Decision
	// Degraded says why there is no full decision; "" if there is one.
	Degraded string
	// Overloaded says that there is no decision because there are too many requests to check.
	Overloaded bool
	// Exempt is the scope in which an operator exempted the request from checks.
	Exempt string
	Caller string
	// Policies are those in force.
	Policies *bundle.Set
	// Answerable says that the request can be answered in the model's place.
	Answerable bool
	// Reject is the answer to rejected requests if their policy has none; "" is
	// policy.RejectAuto.
	Reject policy.RejectAnswer
	Sender clientprofile.Sender
	Look   Look
	// DecisionOnly says that only the decision is wanted: a rejection is a 429.
	DecisionOnly bool
	// Template caches the body of repeated refusals; nil for no cache.
	Template *Template
}

func (c *Case) fairvisor() bool { return c.Policies != nil && c.Policies.FairvisorHeaders }

// incomplete says which part of the decision is missing: all of it, or only the semantic
// part, which does not refuse the request with failure_mode closed.
func (c *Case) incomplete() string {
	if c.Degraded == "" && c.Decision.GetSemanticMissed() {
		return finding.Semantic
	}
	return c.Degraded
}

// Outcome says what happens to a request.
type Outcome struct {
	// Label names the outcome in metrics.
	Label string
	// Status of our own answer; 0 if the request is forwarded.
	Status  int
	Headers Headers
	// Finding is the strongest finding that is not shadow; nil for none.
	Finding  *checkpb.Finding
	Verdicts []evidence.Verdict
	// Text is the answer in the model's place; "" for none.
	Text string
	Wait Wait

	of  *Case
	why why
	// limit is the strongest verdict that is not shadow; nil for none.
	limit *evidence.Verdict
}

// Wait is how long a throttled request waits.
type Wait struct {
	For time.Duration
	// Key is the same for all requests that are throttled together; "" for none.
	Key string
}

// Codes of the errors that clients see.
const (
	codeLoop      = "recursive_loop_detected"
	codeUnchecked = "loop_check_unavailable"
	codeBusy      = "too_many_requests_to_check"
	codeLimited   = "rate_limit_exceeded"
	codeBreaker   = "circuit_breaker_open"
)

// Status codes of our own answers.
const (
	statusOK          = 200
	statusTooMany     = 429
	statusUnavailable = 503
)

// Decide returns the outcome for a request. A rule comes before a finding with an action of
// the same strength.
func Decide(c *Case) Outcome {
	o := Outcome{of: c, Finding: Strongest(c.Decision), Verdicts: evidence.Verdicts(c.Limits, c.Decision)}
	o.limit = strongest(o.Verdicts, false)
	switch o.cause() {
	case forLimit:
		o.refuseLimit("limit")
	case forLoop:
		o.stop()
	case overloaded:
		return o.Busy()
	case unchecked:
		o.refuse(unchecked, "fail-closed", statusUnavailable)
	default:
		o.forward()
	}
	return o
}

// Sender returns who sent the request, as far as its answer depends on that.
func (o *Outcome) Sender() clientprofile.Sender { return o.of.Sender }

// Degraded says why there is no full decision; "" if there is one.
func (o *Outcome) Degraded() string { return o.of.Degraded }

// Forwards reports whether the request goes to its upstream.
func (o *Outcome) Forwards() bool { return o.Status == 0 }

// Rejects reports whether a finding stops the request.
func (o *Outcome) Rejects() bool { return o.why == forLoop }

// refuse refuses the request. The SDKs of OpenAI and Anthropic retry a 429 unless told not
// to, which would be useless or feed a loop's counter.
func (o *Outcome) refuse(why why, label string, status int) {
	o.why, o.Label, o.Status = why, label, status
	o.Headers = o.headers()
	wait := o.wait()
	if wait > 0 {
		o.Headers.Set("Retry-After", strconv.Itoa(wait))
	}
	if wait == 0 || o.Finding.GetAction().Stops() {
		o.Headers.Set("X-Should-Retry", "false")
	}
}

// forward sends the request to its upstream.
func (o *Outcome) forward() {
	c, f := o.of, o.Finding
	switch {
	case f != nil:
		o.Label = f.GetAction().Label()
	case c.Exempt != "":
		o.Label = "exempt"
	case c.Degraded != "":
		o.Label = "degraded"
	default:
		o.Label = checkpb.Action_ACTION_ALLOW.Label()
	}
	o.Headers, o.Wait = o.headers(), o.delay()
}

// delay returns the wait of a throttled request: the longer of the finding's and the rule's.
func (o *Outcome) delay() (w Wait) {
	if v := o.limit; action(v) == checkpb.Action_ACTION_THROTTLE {
		w = Wait{milliseconds(v.GetDelayMs()), v.Wire.GetPolicy() + "\x00" + string(v.Wire.GetKey())}
	}
	if f := o.Finding; f.GetAction() == checkpb.Action_ACTION_THROTTLE {
		w = Wait{max(w.For, milliseconds(f.GetDelayMs())), f.GetPolicy() + "\x00" + string(f.GetFingerprint())}
	}
	return w
}

func milliseconds(n uint32) time.Duration { return time.Duration(n) * time.Millisecond }

// Busy refuses a request because the gateway has no processor or memory for it in time.
func (o Outcome) Busy() Outcome {
	o.refuse(overloaded, "overloaded", statusUnavailable)
	return o
}

// Crowded refuses a throttled request because too many requests already wait.
func (o Outcome) Crowded() Outcome {
	o.Wait = Wait{}
	if o.Finding.GetAction() != checkpb.Action_ACTION_THROTTLE {
		o.refuseLimit(checkpb.Action_ACTION_REJECT.Label())
		return o
	}
	o.Finding = proto.CloneOf(o.Finding)
	o.Finding.Action = checkpb.Action_ACTION_REJECT
	o.stop()
	return o
}

// Refused refuses a request whose format has no answer in the model's place.
func (o Outcome) Refused() Outcome {
	o.Text = ""
	o.refuseLoop(o.of.answer(o.Finding, false))
	return o
}

// Body appends the body of a refusal in a provider's format.
func (o *Outcome) Body(dst []byte, p provider.Provider) []byte {
	if o.why == forLoop && o.of.Template != nil {
		wait := o.wait()
		if t := o.of.Template.get(p, o.of.Look, o.Finding, wait, o.Status); t.fits(o.Finding, wait) {
			return t.render(dst, o.Finding, wait)
		}
	}
	return append(dst, p.Refusal(o.Refusal())...)
}
