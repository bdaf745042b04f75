package gateway

import (
	"time"

	"github.com/unloop/unloop/gateway/internal/bundle"
	"github.com/unloop/unloop/gateway/internal/provider"
	"github.com/unloop/unloop/schemas/checkpb"
	"github.com/unloop/unloop/schemas/fingerprint"
	"github.com/unloop/unloop/schemas/policy"
	"github.com/unloop/unloop/schemas/toolparams"
)

// agentDomain is the domain of the hash that names an agent.
const agentDomain = "unloop/agent/1"

// watches lists the agents' sessions that the matching policies watch. A chat
// without tools has nothing to watch.
func (x *exchange) watches(policies []*bundle.Policy, now time.Time) []*checkpb.ToolWatch {
	if x.Prompt == nil || x.Identity.GetSession() == "" || x.Run == nil && !x.showsTools() {
		return nil
	}
	var out []*checkpb.ToolWatch
	for _, p := range policies {
		if p.Tool == nil && p.Cycle == nil {
			continue
		}
		w := toolWatch(p)
		x.setAnswers(w, p)
		w.Shadow = p.Shadow(now) || p.HeldOut(x.Identity.GetSession())
		if rules := x.rules.Reading[p.ID]; x.Run != nil {
			w.Agent, w.Run = x.runner(), runEvidence(x.Run, rules)
		} else {
			w.Agent, w.History = x.agent(), x.history(p, rules)
		}
		out = append(out, w)
	}
	return out
}

// showsTools says whether the request is of an agent that has tools.
func (x *exchange) showsTools() bool { return x.Prompt.Delta || x.Prompt.Transcript.HasTools() }

// agent names who works in the session: sub-agents share its id, and differ in
// their instructions and tools.
func (x *exchange) agent() []byte {
	sum := fingerprint.New(agentDomain).String(x.Identity.GetSession()).Digest(x.Prompt.Transcript.Agent()).Sum()
	return sum[:]
}

// history is what the request shows, read by a policy's rules.
func (x *exchange) history(p *bundle.Policy, rules provider.Rules) *checkpb.History {
	items, before := x.Prompt.Transcript.History(rules)
	if p.Tool != nil && provider.Again(items) {
		x.again = append(x.again, p.ID)
	}
	h := &checkpb.History{Delta: x.Prompt.Delta, Own: x.OwnSession, Before: bytesOf(before), Items: make([]*checkpb.HistoryItem, len(items))}
	if x.Prompt.Delta {
		h.Before = bytesOf(x.kept(items))
	}
	for i, item := range items {
		h.Items[i] = &checkpb.HistoryItem{Human: bytesOf(item.Human), Summary: item.Summary, Calls: callsOf(item.Calls)}
	}
	return h
}

// kept names what the provider keeps and the request goes on from. A conversation
// has the same name in all its requests; the ids of the calls tell whether one goes
// on or is sent again.
func (x *exchange) kept(items []provider.Item) fingerprint.Digest {
	name := fingerprint.String([]byte(x.Prompt.Previous + x.Prompt.Session))
	for _, item := range items {
		for _, call := range item.Calls {
			name = fingerprint.Chain(name, call.ID)
		}
	}
	return name
}

func callsOf(calls []provider.ToolCall) []*checkpb.ToolCall {
	out := make([]*checkpb.ToolCall, len(calls))
	for i, c := range calls {
		out[i] = &checkpb.ToolCall{
			Tool: c.Tool, Call: bytesOf(c.Key), Result: bytesOf(c.Result), ErrorClass: bytesOf(c.Class), Id: bytesOf(c.ID),
			Failed: c.Failed, Poll: c.Poll, NotOffered: c.NotOffered, Ours: c.Ours, Provided: c.Provided,
			Loose: bytesOf(c.Loose), Soft: c.Soft, Empty: c.Empty,
		}
	}
	return out
}

// bytesOf is a digest on the wire, where none is empty.
func bytesOf(d fingerprint.Digest) []byte {
	if d.IsZero() {
		return nil
	}
	return d[:]
}

// toolWatch returns a policy's tool watch, without its evidence.
func toolWatch(p *bundle.Policy) *checkpb.ToolWatch {
	w := &checkpb.ToolWatch{Policy: p.ID}
	var params toolparams.Params
	if p.Tool != nil {
		w.Warn, w.Block, w.Errors = actions[p.Tool.WarnAction], actions[p.Tool.BlockAction], actions[p.Tool.ErrorAction]
		setToolParams(&params, p.Tool)
		w.Steps = escalate(&params, p.Tool.Escalation)
	}
	if p.Cycle != nil {
		w.Cycle, w.Wide = actions[p.Cycle.Action], actions[p.Cycle.WideAction]
		w.Warn = max(w.Warn, checkpb.Action_ACTION_WARN)
		params.MaxPeriod, params.Repeats = p.Cycle.MaxPeriod, p.Cycle.Steps()[0].At
		if len(p.Cycle.Escalation) > 0 {
			w.CycleSteps = steps(p.Cycle.Escalation)
		}
		params.WideWindow, params.WideRounds = p.Cycle.WideWindow, p.Cycle.WideRounds
		params.WideDistinct, params.NothingNew = p.Cycle.WideDistinctPercent, p.Cycle.NothingNew
	}
	w.Params = checkpb.ToolParamsOf(&params)
	return w
}

// escalate sets the thresholds of a ladder of actions and returns its steps: the first
// step warns, the first that stops blocks, and no number of warnings comes before that.
func escalate(out *toolparams.Params, ladder []policy.Step) []*checkpb.Step {
	if len(ladder) == 0 {
		return nil
	}
	out.WarnThreshold, out.BlockThreshold = ladder[0].At, ladder[len(ladder)-1].At+1
	climbed := steps(ladder)
	for _, step := range climbed {
		if step.GetAction().Stops() {
			out.BlockThreshold = int(step.GetAt())
			break
		}
	}
	out.MaxWarnings = out.BlockThreshold + 1
	return climbed
}

func setToolParams(out *toolparams.Params, t *policy.Tool) {
	out.WarnThreshold, out.BlockThreshold, out.MaxWarnings = t.WarnThreshold, t.BlockThreshold, t.MaxWarnings
	out.PollMultiplier, out.CircuitBreaker = t.PollMultiplier, t.GlobalCircuitBreaker
	out.OutcomeWarn, out.OutcomeBlock = t.OutcomeWarn, t.OutcomeBlock
	out.Remember, out.Idle = t.HistorySize, time.Duration(t.TTLSeconds)*time.Second
	out.IgnoreResults, out.Backoff = !t.ResultAware, t.PollBackoff
	out.Exempt, out.ReadOnly, out.PollTools = t.Exempt, t.ReadOnly, t.PollTools
	for _, rule := range t.PerTool {
		out.PerTool = append(out.PerTool, toolparams.Rule(rule))
	}
	out.ErrorThreshold, out.FailedRounds, out.UnknownThreshold = t.ErrorThreshold, t.FailedRounds, t.UnknownThreshold
	out.EmptyThreshold = t.EmptyThreshold
}

// wireAnswers are the answers as policies name them.
var wireAnswers = map[string]checkpb.Answer{
	policy.AnswerError:     checkpb.Answer_ANSWER_ERROR,
	policy.AnswerSynthetic: checkpb.Answer_ANSWER_SYNTHETIC,
}

// setAnswers says what a policy answers to what its watch rejects, as far as the
// request can be answered so. Where the decision alone is asked for it can't.
func (x *exchange) setAnswers(w *checkpb.ToolWatch, p *bundle.Policy) {
	if x.Asked || x.Peek || x.Run != nil || !x.Prompt.Answerable() {
		return
	}
	if p.Tool != nil {
		w.BlockAnswer = wireAnswers[p.Tool.BlockAnswer]
	}
	if p.Cycle != nil {
		w.CycleAnswer = wireAnswers[p.Cycle.BlockAnswer]
	}
}
