package outcome

import (
	"cmp"
	"encoding/hex"
	"fmt"

	"github.com/unloop/unloop/gateway/internal/decide/clientprofile"
	"github.com/unloop/unloop/gateway/internal/wire/provider"
	"github.com/unloop/unloop/schemas/checkpb"
	"github.com/unloop/unloop/schemas/client"
	"github.com/unloop/unloop/schemas/finding"
	"github.com/unloop/unloop/schemas/policy"
)

// stop rejects the request because of its finding.
func (o *Outcome) stop() {
	answer := o.of.answer(o.Finding, o.of.Answerable)
	if answer == clientprofile.InPlace {
		o.answer()
		return
	}
	o.refuseLoop(answer)
}

// answer returns the kind of answer to a request that a finding stops. A break, which stops
// the agent until a human acts, must not look like an answer of the model.
func (c *Case) answer(f *checkpb.Finding, answerable bool) clientprofile.Answer {
	answerable = answerable && f.GetAction() != checkpb.Action_ACTION_BREAK
	if c.DecisionOnly {
		return clientprofile.Limited
	}
	want := c.rejectBy(f)
	switch status := want.Status(); {
	case status != 0:
		return clientprofile.Answer(status)
	case want == policy.RejectSynthetic && answerable:
		return clientprofile.InPlace
	case want == policy.RejectSynthetic:
		return c.Sender.Answer(false)
	default:
		return c.Sender.Answer(answerable)
	}
}

// rejectBy returns the answer that the finding's policy, or else the gateway, is configured
// to give.
func (c *Case) rejectBy(f *checkpb.Finding) (want policy.RejectAnswer) {
	if c.Policies != nil {
		if p := c.Policies.ByID(f.GetPolicy()); p != nil {
			want = p.RejectBy(f.GetDetector())
		}
	}
	return cmp.Or(want, c.Reject)
}

// refuseLoop refuses the request with an error because of its finding.
func (o *Outcome) refuseLoop(answer clientprofile.Answer) {
	o.refuse(forLoop, o.Finding.GetAction().Label(), int(answer))
}

// answer answers the request in the model's place.
func (o *Outcome) answer() {
	f := o.Finding
	o.why, o.Label, o.Status, o.Text, o.Headers = forLoop, f.GetAction().Label(), statusOK, o.of.Look.synthetic(f), o.headers()
	o.Headers.Set("X-Loop-Answer", checkpb.Answer_ANSWER_SYNTHETIC.Label())
}

// synthetic returns an answer in the model's place: it tells people what was repeated, and
// the model, which reads it later, what to do instead. Its beginning identifies it in a
// history.
func (l Look) synthetic(f *checkpb.Finding) string {
	return "Stopped by Unloop: " + f.Facts().Text() + " (" + codeLoop + "). The model was not asked. " + finding.Of(f.GetDetector(), f.GetRule()).Advice + l.of(f)
}

// refusal describes a finding to the client. wait is in seconds; 0 for none.
func (l Look) refusal(f *checkpb.Finding, wait, status int) provider.Refusal {
	message := l.message(f, wait)
	return provider.Refusal{
		Status: status, Code: codeLoop, Message: message,
		Detail: &client.Detail{
			Error: codeLoop, Message: message, Detector: f.GetDetector(), Policy: f.GetPolicy(),
			Fingerprint: hex.EncodeToString(f.GetFingerprint()), HitCount: int(f.GetHitCount()), WindowSeconds: int(f.GetWindowSeconds()),
			CooldownSeconds: int(f.GetCooldownSeconds()), LoopID: f.GetLoopId(),
		},
	}
}

// message describes a loop, its detector and what to do. wait is in seconds; 0 if waiting
// does not help.
func (l Look) message(f *checkpb.Finding, wait int) string {
	who, then := "Seen by Unloop", ""
	if f.GetAction().Stops() {
		who = "Stopped by Unloop"
		switch {
		case wait > 0:
			then = fmt.Sprintf(" Change the request, or wait %d seconds.", wait)
		case f.GetAction() == checkpb.Action_ACTION_BREAK:
			then = " All requests are refused until a human sends a message or the loop is released."
		}
	}
	return fmt.Sprintf("%s: %s (%s; detector %s, policy %s).%s%s", who, f.Facts().Text(), codeLoop, f.GetDetector(), f.GetPolicy(), then, l.of(f))
}

// Strongest returns the strongest finding that is not shadow; nil for none.
func Strongest(d *checkpb.Decision) *checkpb.Finding { return pick(d, false) }

// pick returns the strongest finding that is shadow, or that is not.
func pick(d *checkpb.Decision, shadow bool) *checkpb.Finding {
	var best *checkpb.Finding
	for _, f := range d.GetFindings() {
		if f.GetShadow() == shadow && (best == nil || byStrength(f, best) < 0) {
			best = f
		}
	}
	return best
}

// byStrength orders findings by their action, then those first that name the called tool,
// then by block time, then those last about identical rounds, then by count.
func byStrength(a, b *checkpb.Finding) int {
	return cmp.Or(
		cmp.Compare(b.GetAction(), a.GetAction()),
		compareBool(!namesTool(a), !namesTool(b)),
		cmp.Compare(b.GetBlockedMs(), a.GetBlockedMs()),
		compareBool(a.GetRule() == finding.IdenticalRounds, b.GetRule() == finding.IdenticalRounds),
		cmp.Compare(b.GetHitCount(), a.GetHitCount()))
}

// namesTool reports whether a finding says which tool was called in a loop.
func namesTool(f *checkpb.Finding) bool {
	return f.GetTool() != "" && (f.GetDetector() == finding.Tool || f.GetDetector() == finding.Cycle)
}

// compareBool orders false before true.
func compareBool(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return 1
	}
	return -1
}
