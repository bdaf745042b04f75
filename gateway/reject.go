package gateway

import (
	"cmp"
	"strconv"

	"github.com/unloop/unloop/gateway/internal/ask/standing"
	"github.com/unloop/unloop/gateway/internal/decide/clientprofile"
	"github.com/unloop/unloop/gateway/internal/decide/outcome"
	"github.com/unloop/unloop/schemas/checkpb"
	"github.com/unloop/unloop/schemas/policy"
)

// sender completes a request that a finding stops by what its answer depends on: which
// client sent it, and how often its conversation came back after it had been rejected.
// Whoever only asks for a decision gets the error of a rate limit.
func (g *Gateway) sender(c *exchange) {
	req, f := c.account.Request, outcome.Strongest(c.Decision)
	if req.Asked {
		c.Asked = true
		return
	}
	c.Reject, c.Answerable = policy.RejectAnswer(g.cfg.Reject), c.form.Answerable()
	if !f.GetAction().Stops() && f.GetAction() != checkpb.Action_ACTION_THROTTLE {
		return
	}
	if !req.Target.Format.Prompt() { // what ends an agent is known of prompts alone
		return
	}
	if c.Template == nil { // a repetition of a request has its headers, too
		c.Sender.Client = clientprofile.Of(req.Header.Get)
	}
	c.Sender.Times = g.rejections.Times(c.arrived, conversation(c, f))
}

// rejected notes that a request was rejected because of a finding.
func (g *Gateway) rejected(c *exchange, out *outcome.Outcome) {
	if !out.Rejects() || c.account.Request.Asked {
		return
	}
	answer := strconv.Itoa(out.Status)
	if out.Text != "" {
		answer = policy.AnswerSynthetic
	}
	g.metrics.rejected.WithLabelValues(c.Sender.Client.Label(), answer).Inc()
	g.rejections.Answered(g.now(), conversation(c, out.Finding), c.Sender.Times)
}

// conversation names the conversation of a finding: the session, or what was repeated
// where the request belongs to none.
func conversation(c *exchange, f *checkpb.Finding) standing.Conversation {
	return standing.Conversation{Caller: c.from.Identity.GetCaller(), Session: cmp.Or(c.from.Identity.GetSession(), string(f.GetFingerprint()))}
}
