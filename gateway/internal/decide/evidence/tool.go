package evidence

import (
	"slices"

	"github.com/unloop/unloop/gateway/internal/rules/bundle"
	"github.com/unloop/unloop/gateway/internal/text/recognize"
	"github.com/unloop/unloop/gateway/internal/wire/provider"
	"github.com/unloop/unloop/gateway/internal/wire/request"
	"github.com/unloop/unloop/schemas/checkpb"
	"github.com/unloop/unloop/schemas/finding"
	"github.com/unloop/unloop/schemas/fingerprint"
	"github.com/unloop/unloop/schemas/policy"
)

// Domains of the hashes that are the keys of agents. The calls of a tool runner are not
// counted with those in requests: each would count twice.
const (
	agentDomain  = "unloop/agent/1"
	runnerDomain = "unloop/runner/1"
)

// watches returns the tool watches of the matching policies. A chat without tools has none.
func (m *maker) watches() []*checkpb.ToolWatch {
	if m.Prompt == nil || m.Identity.GetSession() == "" || m.Run == nil && !m.ShowsTools() {
		return nil
	}
	var out []*checkpb.ToolWatch
	for _, p := range m.Matched {
		if p.Tool == nil && p.Cycle == nil {
			continue
		}
		w := &checkpb.ToolWatch{Policy: p.ID, Tool: p.ToolWire, Cycle: p.CycleWire}
		m.setAnswers(w, p)
		w.Shadow = m.shadow(p)
		if rules := m.Reading[p.ID]; m.Run != nil {
			w.Agent, w.Run = m.runner(), runEvidence(m.Run, rules)
		} else {
			w.Agent, w.History = m.agent(), m.history(p, rules)
		}
		out = append(out, w)
	}
	return out
}

// agent returns the key of the session's agent: sub-agents have the same session but other
// instructions and tools.
func (m *maker) agent() []byte {
	return fingerprint.New(agentDomain).String(m.Identity.GetSession()).Digest(m.Prompt.Transcript.Agent()).Sum().Bytes()
}

// runner returns the key of a tool runner's agent.
func (m *maker) runner() []byte {
	return fingerprint.New(runnerDomain).String(m.Identity.GetSession()).Sum().Bytes()
}

// history returns the history in the request, read by a policy's rules.
func (m *maker) history(p *bundle.Policy, rules provider.Rules) *checkpb.History {
	items, before := m.Prompt.Transcript.History(rules)
	if p.Tool != nil && (provider.Again(items) || acknowledged(items, p.Tool.EmptyThreshold > 0)) {
		m.again = append(m.again, p.ID)
	}
	if n := len(items); n > 0 && len(items[n-1].Calls) > 0 {
		m.does = !slices.ContainsFunc(items[n-1].Calls, func(c provider.ToolCall) bool { return !c.Once })
	}
	h := &checkpb.History{Delta: m.Prompt.Delta, Own: m.OwnSession, Before: bytesOf(before), Items: make([]*checkpb.HistoryItem, len(items))}
	if m.Prompt.Delta {
		h.Before = bytesOf(m.kept(items))
	}
	calls := 0
	for i := range items {
		calls += len(items[i].Calls)
	}
	w, wired := newWire(calls, len(items)), make([]checkpb.HistoryItem, len(items))
	for i := range items {
		it := &wired[i]
		it.Human, it.Summary, it.Calls = w.bytesOf(items[i].Human), items[i].Summary, w.wire(items[i].Calls)
		it.Closed = items[i].Closed || i == 0 && m.Prompt.Delta && it.Human != nil && !m.Prompt.Transcript.Strays()
		h.Items[i] = it
	}
	return h
}

// acknowledged reports whether the newest round's results only acknowledge calls that do
// something; all calls of a batch have the same such result. Results that say that nothing
// was found count, too, if the tool detector counts them.
func acknowledged(items []provider.Item, countsEmpty bool) bool {
	if len(items) == 0 || len(items[len(items)-1].Calls) == 0 {
		return false
	}
	return !slices.ContainsFunc(items[len(items)-1].Calls, func(c provider.ToolCall) bool {
		silent := saysDone[c.Result] && !c.Empty || countsEmpty && c.Empty
		return c.Result.IsZero() || c.Failed || c.Empty && !countsEmpty || c.Long || c.Soft || c.Ours || !silent && !recognize.Acts(c.Tool)
	})
}

// saysDone are the digests of results that only say that a command was carried out.
var saysDone = func() map[fingerprint.Digest]bool {
	out := map[fingerprint.Digest]bool{fingerprint.EmptyResult(): true}
	for _, word := range []string{"ok", "OK", "Ok", "done", "Done", "success", "Success", "succeeded", "completed"} {
		out[recognize.Result([]byte(word), nil)], out[recognize.Result([]byte(word+"."), nil)] = true, true
	}
	return out
}()

// kept identifies the history that the provider stores. All requests of a conversation have
// the same name; the ids of the calls distinguish the next request from a repeated one.
func (m *maker) kept(items []provider.Item) fingerprint.Digest {
	name := fingerprint.String([]byte(m.Prompt.Previous + m.Prompt.Session))
	for _, item := range items {
		for _, call := range item.Calls {
			name = fingerprint.Chain(name, call.ID)
		}
	}
	return name
}

// WireCalls returns calls in the form of the wire.
func WireCalls(calls []provider.ToolCall) []*checkpb.ToolCall {
	return newWire(len(calls), 0).wire(calls)
}

// wire allocates the calls of a history and their digests together: one allocation for each
// would be most of those of a request.
type wire struct {
	calls   []checkpb.ToolCall
	lists   []*checkpb.ToolCall
	digests []byte
}

// usualDigests is the number of digests of most calls.
const usualDigests = 3

func newWire(calls, others int) *wire {
	return &wire{make([]checkpb.ToolCall, calls), make([]*checkpb.ToolCall, calls), make([]byte, 0, (usualDigests*calls+others)*len(fingerprint.Digest{}))}
}

func (w *wire) wire(calls []provider.ToolCall) []*checkpb.ToolCall {
	out := w.lists[:len(calls):len(calls)]
	w.lists = w.lists[len(calls):]
	for i := range calls {
		c, to := &calls[i], &w.calls[0]
		w.calls = w.calls[1:]
		to.Tool, to.Call, to.Result, to.ErrorClass, to.Id = c.Tool, w.bytesOf(c.Key), w.bytesOf(c.Result), w.bytesOf(c.Class), w.bytesOf(c.ID)
		to.Failed, to.Poll, to.NotOffered, to.Ours, to.Provided = c.Failed, c.Poll, c.NotOffered, c.Ours, c.Provided
		to.Loose, to.Soft, to.Empty = w.bytesOf(c.Loose), c.Soft, c.Empty
		to.Wait, to.Once, to.Plain, to.Look, to.Retold = c.Wait, c.Once, c.Plain, c.Look, c.Retold
		out[i] = to
	}
	return out
}

func (w *wire) bytesOf(d fingerprint.Digest) []byte {
	if d.IsZero() {
		return nil
	}
	from := len(w.digests)
	w.digests = append(w.digests, d[:]...)
	return w.digests[from:len(w.digests):len(w.digests)]
}

// bytesOf returns a digest in the form of the wire, where a zero digest is empty.
func bytesOf(d fingerprint.Digest) []byte {
	if d.IsZero() {
		return nil
	}
	return d[:]
}

// setAnswers says, for events, which rejections of a watch are answered in the model's
// place, if that is possible. It is not if only the decision is wanted.
func (m *maker) setAnswers(w *checkpb.ToolWatch, p *bundle.Policy) {
	if m.DecisionOnly || m.Peek || m.Run != nil || !m.Prompt.Answerable() {
		return
	}
	if p.RejectBy(finding.Tool) == policy.RejectSynthetic {
		w.BlockAnswer = checkpb.Answer_ANSWER_SYNTHETIC
	}
	if p.RejectBy(finding.Cycle) == policy.RejectSynthetic {
		w.CycleAnswer = checkpb.Answer_ANSWER_SYNTHETIC
	}
}

// runEvidence returns a tool runner's call in the form of the wire, read by a policy's rules.
func runEvidence(t *request.ToolRun, rules provider.Rules) *checkpb.ToolRun {
	if t.Explain {
		return &checkpb.ToolRun{}
	}
	is := recognize.TraitsOf(t.Tool, t.Arguments)
	call := &checkpb.ToolCall{
		Tool: t.Tool, Call: bytesOf(recognize.Call(t.Tool, t.Arguments)), Poll: is.Poll, Wait: is.Wait, Look: is.Look, Once: is.Once,
	}
	switch {
	case t.Canceled:
		return &checkpb.ToolRun{Call: call, Done: true, Canceled: true}
	case !t.Done:
		return &checkpb.ToolRun{Call: call}
	}
	if rules.Ours(t.Result) {
		call.Ours = true
		return &checkpb.ToolRun{Call: call, Done: true}
	}
	call.Result = bytesOf(recognize.Result(t.Result, rules.Volatile))
	switch {
	case t.Failed != nil:
		call.Failed = *t.Failed
	case rules.Failures != nil:
		call.Failed = rules.Failures.Match(t.Result)
	default:
		call.Failed = recognize.LooksFailed(t.Result)
	}
	if call.GetFailed() {
		call.ErrorClass, call.Plain = bytesOf(recognize.ErrorClass(t.Result)), recognize.IsPlainError(t.Tool, t.Result)
		call.Look = call.Look || recognize.IsTransient(t.Result)
	} else if recognize.Measures(t.Tool, t.Arguments) {
		call.Result = bytesOf(recognize.Result(t.Result, rules.Volatile.WithTimes()))
	}
	return &checkpb.ToolRun{Call: call, Done: true}
}
