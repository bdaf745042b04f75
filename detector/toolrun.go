package detector

import (
	"time"

	"github.com/unloop/unloop/detector/internal/toolloop"
	"github.com/unloop/unloop/schemas/checkpb"
)

// step takes what a watch brings into an agent's state: a history, or a tool
// runner's call.
func (v *watched) step(s toolloop.State, at time.Time) toolloop.State {
	run := v.watch.GetRun()
	switch {
	case run == nil:
		s, v.report = toolloop.Step(s, v.evidence, v.params, at)
	case run.GetCall() == nil:
		v.report = toolloop.Explain(s, v.params, at)
	case run.GetDone():
		s, v.report = toolloop.Result(s, v.call, v.params, at)
	default:
		s, v.report = toolloop.Check(s, v.call, v.params, at)
	}
	if v.reports() {
		v.stats = s.Stats()
	}
	return s
}

// explains says whether the watch only asks what is known.
func (v *watched) explains() bool {
	return v.watch.GetRun() != nil && v.watch.GetRun().GetCall() == nil
}

// reports says whether the watch's session is to be reported of.
func (v *watched) reports() bool { return v.watch.GetRun() != nil || v.check.GetExplain() }

// toolReport is what is known of the session; nil where nobody asked.
func (v *watched) toolReport() *checkpb.ToolReport {
	if !v.reports() {
		return nil
	}
	out := &checkpb.ToolReport{
		Policy: v.watch.GetPolicy(), Shadow: v.watch.GetShadow(),
		Calls: uint32(v.stats.Calls), Total: uint32(v.stats.Total), Unique: uint32(v.stats.Unique), Blocked: uint32(v.stats.Blocked),
		Remembered: uint32(v.stats.Remembered), MostRepeated: v.stats.MostRepeated, MostRepeatedCount: uint32(v.stats.MostRepeatedCount),
		Broken: v.stats.Broken,
	}
	for i := range v.report.Calls {
		c := &v.report.Calls[i]
		if i > 0 && uint32(c.Streak) <= out.GetStreak() {
			continue
		}
		out.Streak, out.Repeats = uint32(c.Streak), uint32(c.Total)
		out.WarnThreshold, out.BlockThreshold = uint32(c.Warn), uint32(c.Block)
		out.Poll, out.BackoffSeconds = c.Poll, uint32(c.BackoffIn)
	}
	if v.action().Stops() {
		out.BackoffSeconds = 0 // no waiting lets the next one through
	}
	return out
}
