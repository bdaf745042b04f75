package evaluate

import (
	"fmt"
	"time"

	"github.com/unloop/unloop/detector/internal/toolloop"
	"github.com/unloop/unloop/schemas/checkpb"
	"github.com/unloop/unloop/schemas/fingerprint"
)

// digestReader reads digests and remembers the first fault.
type digestReader struct{ err error }

func (r *digestReader) digest(b []byte) (d fingerprint.Digest) {
	if len(b) != 0 && len(b) != len(d) {
		r.err = fmt.Errorf("digest has %d bytes, want %d", len(b), len(d))
		return d
	}
	copy(d[:], b)
	return d
}

// evidence returns a watch's history.
func (r *digestReader) evidence(h *checkpb.History) toolloop.Evidence {
	ev := toolloop.Evidence{Delta: h.GetDelta(), Own: h.GetOwn(), Items: make([]toolloop.Item, len(h.GetItems()))}
	ev.Before = r.digest(h.GetBefore())
	for i, item := range h.GetItems() {
		ev.Items[i] = toolloop.Item{Human: r.digest(item.GetHuman()), Summary: item.GetSummary(), Calls: make([]toolloop.Call, len(item.GetCalls()))}
		for j, c := range item.GetCalls() {
			ev.Items[i].Calls[j] = r.call(c)
		}
	}
	return ev
}

func (r *digestReader) call(c *checkpb.ToolCall) toolloop.Call {
	return toolloop.Call{
		Tool: c.GetTool(), Key: r.digest(c.GetCall()), Result: r.digest(c.GetResult()), Class: r.digest(c.GetErrorClass()), ID: r.digest(c.GetId()),
		Failed: c.GetFailed(), Poll: c.GetPoll(), NotOffered: c.GetNotOffered(), Ours: c.GetOurs(),
		Loose: r.digest(c.GetLoose()), Soft: c.GetSoft(), Empty: c.GetEmpty(),
	}
}

// paramsOf reads a watch's parameters. The step that uses them repairs values that make
// no sense.
func paramsOf(p *checkpb.ToolParams) toolloop.Params {
	out := toolloop.DefaultParams()
	out.WarnThreshold, out.BlockThreshold, out.MaxWarnings = int(p.GetWarnThreshold()), int(p.GetBlockThreshold()), int(p.GetMaxWarnings())
	out.PollMultiplier, out.CircuitBreaker = int(p.GetPollMultiplier()), int(p.GetCircuitBreaker())
	out.OutcomeWarn, out.OutcomeBlock = int(p.GetOutcomeWarn()), int(p.GetOutcomeBlock())
	out.IgnoreResults = p.GetIgnoreResults()
	if p.GetRemember() > 0 {
		out.Remember = int(p.GetRemember())
	}
	if p.GetIdleSeconds() > 0 {
		out.Idle = time.Duration(p.GetIdleSeconds()) * time.Second
	}
	if len(p.GetBackoffSeconds()) > 0 {
		out.Backoff = nil
	}
	for _, s := range p.GetBackoffSeconds() {
		out.Backoff = append(out.Backoff, int(s))
	}
	out.Exempt, out.ReadOnly, out.PollTools = p.GetExempt(), p.GetReadOnly(), p.GetPollTools()
	for _, r := range p.GetPerTool() {
		out.PerTool = append(out.PerTool, toolloop.ToolRule{
			Match: r.GetMatch(), WarnThreshold: int(r.GetWarnThreshold()), BlockThreshold: int(r.GetBlockThreshold()), PollMultiplier: int(r.GetPollMultiplier()),
		})
	}
	out.ErrorThreshold, out.FailedRounds, out.UnknownThreshold = int(p.GetErrorThreshold()), int(p.GetFailedRounds()), int(p.GetUnknownThreshold())
	out.NothingNew, out.EmptyThreshold = int(p.GetNothingNew()), int(p.GetEmptyThreshold())
	out.MaxPeriod, out.Repeats = int(p.GetMaxPeriod()), int(p.GetRepeats())
	out.WideWindow, out.WideRounds, out.WideDistinct = int(p.GetWideWindow()), int(p.GetWideRounds()), int(p.GetWideDistinctPercent())
	return out
}
