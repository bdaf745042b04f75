package gateway

import (
	"cmp"
	"strconv"

	"github.com/unloop/unloop/gateway/internal/ask/blocks"
	"github.com/unloop/unloop/gateway/internal/decide/ending"
	"github.com/unloop/unloop/gateway/internal/decide/outcome"
	"github.com/unloop/unloop/schemas/checkpb"
	"github.com/unloop/unloop/schemas/policy"
)

// sender completes a request that a finding stops by what its answer depends on: which
// client sent it, and how often its conversation came back after it had been rejected.
// Whoever only asks for a decision gets the error of a rate limit.
func (g *Gateway) sender(c *checked) {
	x, f := c.account.Request, outcome.Strongest(c.Decision)
	if x.Asked {
		c.Asked = true
		return
	}
	c.Reject, c.Answerable = policy.RejectAnswer(g.cfg.Reject), c.form.Answerable()
	if !f.GetAction().Stops() && f.GetAction() != checkpb.Action_ACTION_THROTTLE {
		return
	}
	if !x.Target.Format.Prompt() { // what ends an agent is known of prompts alone
		return
	}
	if c.Template == nil { // a repetition of a request has its headers, too
		c.Sender.Client = ending.Of(x.Header.Get)
	}
	c.Sender.Times = g.told.Times(c.arrived, conversation(c, f))
}

// rejected notes that a request was rejected because of a finding.
func (g *Gateway) rejected(c *checked, out *outcome.Outcome) {
	if !out.Rejects() || c.account.Request.Asked {
		return
	}
	answer := strconv.Itoa(out.Status)
	if out.Text != "" {
		answer = policy.AnswerSynthetic
	}
	g.metrics.rejected.WithLabelValues(c.Sender.Client.Label(), answer).Inc()
	g.told.Answered(g.now(), conversation(c, out.Finding), c.Sender.Times)
}

// conversation names the conversation of a finding: the session, or what was repeated
// where the request belongs to none.
func conversation(c *checked, f *checkpb.Finding) blocks.Conversation {
	return blocks.Conversation{Caller: c.from.Identity.GetCaller(), Session: cmp.Or(c.from.Identity.GetSession(), string(f.GetFingerprint()))}
}
