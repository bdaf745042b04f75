package gateway

import (
	"time"

	"github.com/unloop/unloop/gateway/internal/bundle"
	"github.com/unloop/unloop/gateway/internal/provider"
	"github.com/unloop/unloop/schemas/checkpb"
	"github.com/unloop/unloop/schemas/fingerprint"
	"github.com/unloop/unloop/schemas/policy"
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

// toolWatch are a policy's parameters for the tool and cycle detectors.
func toolWatch(p *bundle.Policy) *checkpb.ToolWatch {
	w := &checkpb.ToolWatch{Policy: p.ID, Params: &checkpb.ToolParams{}}
	if p.Tool != nil {
		w.Warn, w.Block, w.Errors = actions[p.Tool.WarnAction], actions[p.Tool.BlockAction], actions[p.Tool.ErrorAction]
		setToolParams(w.Params, p.Tool)
		w.Steps = escalate(w.Params, p.Tool.Escalation)
	}
	if p.Cycle != nil {
		w.Cycle, w.Wide = actions[p.Cycle.Action], actions[p.Cycle.WideAction]
		w.Warn = max(w.Warn, checkpb.Action_ACTION_WARN)
		w.Params.MaxPeriod, w.Params.Repeats = uint32(p.Cycle.MaxPeriod), uint32(p.Cycle.Steps()[0].At)
		if len(p.Cycle.Escalation) > 0 {
			w.CycleSteps = steps(p.Cycle.Escalation)
		}
		w.Params.WideWindow, w.Params.WideRounds = uint32(p.Cycle.WideWindow), uint32(p.Cycle.WideRounds)
		w.Params.WideDistinctPercent = uint32(p.Cycle.WideDistinctPercent)
		w.Params.NothingNew = uint32(p.Cycle.NothingNew)
	}
	return w
}

// escalate makes a ladder of actions the thresholds: the first step warns, the
// first that stops blocks, and no number of warnings comes before that.
func escalate(out *checkpb.ToolParams, ladder []policy.Step) []*checkpb.Step {
	if len(ladder) == 0 {
		return nil
	}
	climbed := steps(ladder)
	out.WarnThreshold, out.BlockThreshold = climbed[0].GetAt(), climbed[len(climbed)-1].GetAt()+1
	for _, step := range climbed {
		if step.GetAction().Stops() {
			out.BlockThreshold = step.GetAt()
			break
		}
	}
	out.MaxWarnings = out.GetBlockThreshold() + 1
	return climbed
}

func setToolParams(out *checkpb.ToolParams, t *policy.Tool) {
	out.WarnThreshold, out.BlockThreshold, out.MaxWarnings = uint32(t.WarnThreshold), uint32(t.BlockThreshold), uint32(t.MaxWarnings)
	out.PollMultiplier, out.CircuitBreaker = uint32(t.PollMultiplier), uint32(t.GlobalCircuitBreaker)
	out.OutcomeWarn, out.OutcomeBlock = uint32(t.OutcomeWarn), uint32(t.OutcomeBlock)
	out.Remember, out.IdleSeconds = uint32(t.HistorySize), uint32(t.TTLSeconds)
	out.IgnoreResults = !t.ResultAware
	for _, s := range t.PollBackoff {
		out.BackoffSeconds = append(out.BackoffSeconds, uint32(s))
	}
	out.Exempt, out.ReadOnly, out.PollTools = t.Exempt, t.ReadOnly, t.PollTools
	for _, rule := range t.PerTool {
		out.PerTool = append(out.PerTool, &checkpb.ToolRule{
			Match: rule.Match, WarnThreshold: uint32(rule.WarnThreshold), BlockThreshold: uint32(rule.BlockThreshold),
			PollMultiplier: uint32(rule.PollMultiplier),
		})
	}
	out.ErrorThreshold, out.FailedRounds, out.UnknownThreshold = uint32(t.ErrorThreshold), uint32(t.FailedRounds), uint32(t.UnknownThreshold)
	out.EmptyThreshold = uint32(t.EmptyThreshold)
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
