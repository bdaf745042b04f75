package gateway

import (
	"cmp"
	"strconv"

	"github.com/unloop/unloop/gateway/internal/ask/standing"
	"github.com/unloop/unloop/gateway/internal/decide/clientprofile"
	"github.com/unloop/unloop/gateway/internal/decide/outcome"
	"github.com/unloop/unloop/gateway/internal/memory/account"
	"github.com/unloop/unloop/gateway/internal/memory/owed"
	"github.com/unloop/unloop/gateway/internal/wire/request"
	"github.com/unloop/unloop/schemas/checkpb"
	"github.com/unloop/unloop/schemas/policy"
)

// outcomeCase returns the facts that determine the outcome of a request. A client that only
// asks for a decision gets a rate-limit error.
func (g *Gateway) outcomeCase(e *exchange) *outcome.Case {
	c := &outcome.Case{
		Evidence: e.evidence, Decision: g.withOwed(e), Degraded: e.answer.Degraded, Overloaded: e.answer.Overloaded,
		Exempt: e.operator.Exempt, Caller: e.from.Identity.GetCaller(), Policies: e.rules.Set, Template: e.template, Look: g.look, DecisionOnly: e.req.DecisionOnly,
	}
	if !e.req.DecisionOnly {
		c.Reject, c.Answerable = policy.RejectAnswer(g.cfg.Reject), e.req.Prompt.Answerable()
		c.Sender = g.sender(e)
	}
	return c
}

// sender returns the client of a request that a finding stops, and how often its conversation
// came back after a rejection. Both determine the form of the answer.
func (g *Gateway) sender(e *exchange) clientprofile.Sender {
	from, f := clientprofile.Sender{Client: e.client, Agent: e.agent}, outcome.Strongest(e.answer.Decision)
	if !f.GetAction().Stops() && f.GetAction() != checkpb.Action_ACTION_THROTTLE {
		return from
	}
	if !e.req.Target.Format.Prompt() { // what ends an agent is known for prompts only
		return from
	}
	if e.template == nil { // a repetition has the same headers
		from.Client = clientprofile.Detect(e.req.Header.Get)
	}
	from.Times = g.rejections.Times(e.arrived, conversation(&e.from, f))
	return from
}

// rejected notes that a request was rejected because of a finding.
func (g *Gateway) rejected(a *account.Account, out *outcome.Outcome) {
	if !out.Rejects() || a.Request.DecisionOnly {
		return
	}
	answer := strconv.Itoa(out.Status)
	if out.Text != "" {
		answer = policy.AnswerSynthetic
	}
	from := out.Sender()
	g.metrics.rejected.WithLabelValues(from.Client.Label(), answer).Inc()
	g.rejections.Answered(g.now(), conversation(&a.Subject, out.Finding), from.Times)
}

// conversation names the conversation of a finding: the session, or without one the
// repeated fingerprint.
func conversation(from *request.Subject, f *checkpb.Finding) standing.Conversation {
	return standing.Conversation{Caller: from.Identity.GetCaller(), Session: cmp.Or(from.Identity.GetSession(), string(f.GetFingerprint()))}
}

// withOwed adds the hint that is still owed to a request to its decision, unless that asks
// for more than a hint.
func (g *Gateway) withOwed(e *exchange) *checkpb.Decision {
	d := e.answer.Decision
	if e.req.DecisionOnly || e.req.Peek || !g.owed.Any() || outcome.Strongest(d).GetAction() >= checkpb.Action_ACTION_HINT {
		return d
	}
	return g.owed.With(d, owed.KeyOf(&e.from, e.req))
}

// owe records that a request carries a hint. The hint stays owed until the upstream answers.
func (g *Gateway) owe(a *account.Account, out *outcome.Outcome) {
	if !out.Forwards() || out.Finding.GetAction() != checkpb.Action_ACTION_HINT {
		return
	}
	key, f := owed.KeyOf(&a.Subject, a.Request), out.Finding
	a.Excused = func() { g.owed.Keep(key, f) }
	a.Answered = func() { g.owed.Drop(key) }
}
