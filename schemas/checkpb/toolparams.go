package checkpb

import (
	"time"

	"github.com/unloop/unloop/schemas/toolparams"
)

// number is a number of the parameters and its field on the wire.
type number struct {
	plain *int
	wire  *uint32
}

// numbers pairs the numbers of the parameters with the fields on the wire, for both
// directions.
func numbers(p *toolparams.Params, w *ToolParams) [21]number {
	return [...]number{
		{&p.WarnThreshold, &w.WarnThreshold}, {&p.BlockThreshold, &w.BlockThreshold}, {&p.MaxWarnings, &w.MaxWarnings},
		{&p.PollMultiplier, &w.PollMultiplier}, {&p.CircuitBreaker, &w.CircuitBreaker},
		{&p.OutcomeWarn, &w.OutcomeWarn}, {&p.OutcomeBlock, &w.OutcomeBlock}, {&p.Remember, &w.Remember},
		{&p.ErrorThreshold, &w.ErrorThreshold}, {&p.FailedRounds, &w.FailedRounds}, {&p.UnknownThreshold, &w.UnknownThreshold},
		{&p.EmptyThreshold, &w.EmptyThreshold}, {&p.NothingNew, &w.NothingNew}, {&p.MaxPeriod, &w.MaxPeriod}, {&p.Repeats, &w.Repeats},
		{&p.Escalate, &w.Escalate}, {&p.CycleEscalate, &w.CycleEscalate}, {&p.PollLimit, &w.PollLimitSeconds},
		{&p.WideWindow, &w.WideWindow}, {&p.WideRounds, &w.WideRounds}, {&p.WideDistinct, &w.WideDistinctPercent},
	}
}

// ToolParamsOf returns parameters as they are sent.
func ToolParamsOf(p *toolparams.Params) *ToolParams {
	out := &ToolParams{
		IdleSeconds: uint32(p.Idle / time.Second), IgnoreResults: p.IgnoreResults,
		Exempt: p.Exempt, ReadOnly: p.ReadOnly, PollTools: p.PollTools,
	}
	for _, n := range numbers(p, out) {
		*n.wire = uint32(*n.plain)
	}
	for _, pause := range p.Backoff {
		out.BackoffSeconds = append(out.BackoffSeconds, uint32(pause))
	}
	for _, r := range p.PerTool {
		out.PerTool = append(out.PerTool, &ToolRule{
			Match: r.Match, WarnThreshold: uint32(r.WarnThreshold), BlockThreshold: uint32(r.BlockThreshold), PollMultiplier: uint32(r.PollMultiplier),
		})
	}
	return out
}

// Plain returns the parameters that were sent.
func (x *ToolParams) Plain() toolparams.Params {
	out := toolparams.Params{
		Idle: time.Duration(x.GetIdleSeconds()) * time.Second, IgnoreResults: x.GetIgnoreResults(),
		Exempt: x.GetExempt(), ReadOnly: x.GetReadOnly(), PollTools: x.GetPollTools(),
	}
	if x == nil {
		return out
	}
	for _, n := range numbers(&out, x) {
		*n.plain = int(*n.wire)
	}
	for _, pause := range x.GetBackoffSeconds() {
		out.Backoff = append(out.Backoff, int(pause))
	}
	for _, r := range x.GetPerTool() {
		out.PerTool = append(out.PerTool, toolparams.Rule{
			Match: r.GetMatch(), WarnThreshold: int(r.GetWarnThreshold()), BlockThreshold: int(r.GetBlockThreshold()), PollMultiplier: int(r.GetPollMultiplier()),
		})
	}
	return out
}
