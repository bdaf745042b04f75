package evaluate

import (
	"crypto/sha256"
	"fmt"
	"time"

	"github.com/unloop/unloop/detector/internal/toolloop"
	"github.com/unloop/unloop/schemas"
	"github.com/unloop/unloop/schemas/checkpb"
	"github.com/unloop/unloop/schemas/event"
	"github.com/unloop/unloop/schemas/finding"
	"github.com/unloop/unloop/schemas/policy"
)

// Watch evaluates one tool watch of a check: the tool and cycle detectors of a policy.
type Watch struct {
	check  *checkpb.Check
	watch  *checkpb.ToolWatch
	params watchParams
	// Evidence is the history of a request, call the one call that a tool runner asks
	// about.
	evidence toolloop.Evidence
	call     toolloop.Call
	verdict  watchVerdict
}

// watchVerdict is the result of a tool watch's step.
type watchVerdict struct {
	toolloop.Report
	Stats toolloop.Stats
	At    time.Time
}

// NewWatch reads a tool watch of a check and refuses what no gateway sends.
func NewWatch(check *checkpb.Check, w *checkpb.ToolWatch) (*Watch, error) {
	if len(w.GetAgent()) != sha256.Size {
		return nil, fmt.Errorf("agent of a watch has %d bytes, want %d", len(w.GetAgent()), sha256.Size)
	}
	params, err := paramsOf(w)
	if err != nil {
		return nil, err
	}
	v := &Watch{check: check, watch: w, params: params}
	var r digestReader
	if run := w.GetRun(); run != nil {
		v.call = r.call(run.GetCall())
	} else {
		v.evidence = r.evidence(w.GetHistory())
		v.evidence.Retry = check.GetRetry()
	}
	return v, r.err
}

// Key returns the key of the agent's record.
func (v *Watch) Key() string {
	return schemas.SessionKey(v.watch.GetShadow(), v.watch.GetPolicy(), v.watch.GetAgent())
}

// Access returns Read for a peek, and for a watch that only asks for a report.
func (v *Watch) Access() Access {
	if v.check.GetPeek() || v.explains() {
		return Read
	}
	return Write
}

// explains reports whether the watch only asks for a description of the session.
func (v *Watch) explains() bool { return v.watch.GetRun() != nil && v.watch.GetRun().GetCall() == nil }

// reports reports whether the result has a report of the session.
func (v *Watch) reports() bool { return v.watch.GetRun() != nil || v.check.GetExplain() }

// Verdict returns what Step leaves for Result.
func (v *Watch) Verdict() any { return &v.verdict }

// Step adds the request's history, or a tool runner's call, to the agent's state.
func (v *Watch) Step(s toolloop.State, now time.Time) (toolloop.State, time.Duration) {
	v.verdict = watchVerdict{At: now}
	run := v.watch.GetRun()
	switch {
	case run == nil:
		s, v.verdict.Report = toolloop.Step(s, v.evidence, v.params.Params, now)
	case run.GetCall() == nil:
		v.verdict.Report = toolloop.Explain(s, v.params.Params, now)
	case run.GetCanceled():
		s, v.verdict.Report = toolloop.Cancel(s, v.call, v.params.Params, now)
	case run.GetDone():
		s, v.verdict.Report = toolloop.Result(s, v.call, v.params.Params, now)
	default:
		s, v.verdict.Report = toolloop.Check(s, v.call, v.params.Params, now)
	}
	if v.reports() {
		v.verdict.Stats = s.Stats()
	}
	if action := v.action(); action.Stops() && !v.watch.GetShadow() {
		s = toolloop.Stop(s, action == checkpb.Action_ACTION_BREAK)
	}
	return s, v.params.Idle() + time.Second
}

// Behind reports whether nobody has to wait until the newest step is stored: it found
// nothing, and the next request shows the same history again to this detector. What a tool
// runner asks about is shown once, and so is what follows on a history that the provider keeps.
func (v *Watch) Behind() bool {
	return v.check.GetHome() && v.watch.GetRun() == nil && !v.evidence.Delta && len(v.verdict.Detections) == 0
}

// Result returns the findings. Hits is the highest count of any finding or, without
// findings, of the newest round's calls.
func (v *Watch) Result() Result {
	out := Result{Tools: v.toolReport()}
	for i := range v.verdict.Calls {
		out.Hits = max(out.Hits, uint32(v.verdict.Calls[i].Streak))
	}
	for i := range v.verdict.Detections {
		f := v.finding(&v.verdict.Detections[i])
		if f == nil {
			continue
		}
		in := newIncident(v.check, f, v.verdict.At)
		in.Calls = callsOf(&v.verdict.Detections[i])
		out.Findings, out.Incidents = append(out.Findings, f), append(out.Incidents, in)
		out.Hits = max(out.Hits, f.GetHitCount())
	}
	return out
}

// callsOf returns the calls of a detection as events show them.
func callsOf(d *toolloop.Detection) []event.Call {
	var out []event.Call
	for _, c := range d.Calls {
		call := event.Call{Tool: published(c.Tool), Call: fmt.Sprintf("%016x", c.Key)}
		if c.Result != 0 {
			call.Result = fmt.Sprintf("%016x", c.Result)
		}
		out = append(out, call)
	}
	return out
}

// toolReport returns the report of the session; nil if none was asked for.
func (v *Watch) toolReport() *checkpb.ToolReport {
	if !v.reports() {
		return nil
	}
	out := &checkpb.ToolReport{
		Policy: v.watch.GetPolicy(), Shadow: v.watch.GetShadow(),
		Calls: uint32(v.verdict.Stats.Calls), Total: uint32(v.verdict.Stats.Total), Unique: uint32(v.verdict.Stats.Unique), Blocked: uint32(v.verdict.Stats.Blocked),
		MostRepeated: v.verdict.Stats.MostRepeated, MostRepeatedCount: uint32(v.verdict.Stats.MostRepeatedCount),
		Broken: v.verdict.Stats.Broken,
	}
	for i := range v.verdict.Calls {
		c := &v.verdict.Calls[i]
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

// finding returns the finding for one detection; nil if the policy allows it. A hint
// is given with the request that brings a new repeat, and not again while it stands.
func (v *Watch) finding(f *toolloop.Detection) *checkpb.Finding {
	action := v.actionOf(f)
	if f.Standing && !action.Stops() && !v.explains() || action == checkpb.Action_ACTION_ALLOW {
		return nil
	}
	facts := f.Facts()
	facts.Action = action.Label()
	out := &checkpb.Finding{
		Policy: v.watch.GetPolicy(), Detector: facts.Detector, Fingerprint: v.watch.GetAgent(), Shadow: v.watch.GetShadow(),
		Action: action, HitCount: uint32(f.Count), Threshold: uint32(f.Threshold), WindowSeconds: uint32(v.params.TTLSeconds),
		Rule: f.Rule, Tool: f.Tool, Message: facts.Hint(),
	}
	if !action.Stops() {
		out.BackoffSeconds = uint32(f.Backoff) // waiting lets nothing through that is stopped
	}
	if action == checkpb.Action_ACTION_REJECT {
		out.Answer = v.answerTo(f)
	}
	if action == checkpb.Action_ACTION_THROTTLE {
		out.DelayMs = uint32(min(time.Duration(f.Count)*delayStep, maxDelay) / time.Millisecond)
	}
	return out
}

// action returns the strongest action of all detections.
func (v *Watch) action() checkpb.Action {
	var strongest checkpb.Action
	for i := range v.verdict.Detections {
		strongest = max(strongest, v.actionOf(&v.verdict.Detections[i]))
	}
	return strongest
}

// actionOf returns the policy's action for a detection. A break and a note have the
// same action under every policy.
func (v *Watch) actionOf(f *toolloop.Detection) checkpb.Action {
	switch f.Level {
	case toolloop.Break:
		return checkpb.Action_ACTION_BREAK
	case toolloop.Note:
		return checkpb.Action_ACTION_WARN
	case toolloop.Allow:
		return checkpb.Action_ACTION_ALLOW
	}
	warn, p := actionOf(v.params.WarnAction), &v.params
	detector := finding.DetectorOf(f.Rule)
	if detector == finding.Cycle {
		warn = max(warn, checkpb.Action_ACTION_WARN)
	}
	switch takes := finding.Of(detector, f.Rule).Takes; {
	case takes == finding.ByErrors:
		return leadOn(f, actionOf(p.ErrorAction), actionOf(p.BlockAction))
	case takes == finding.ByWide:
		return actionOf(p.WideAction)
	case takes == finding.ByNothing:
		return leadOn(f, actionOf(p.WideAction), actionOf(p.Action))
	case detector == finding.Cycle && p.cycleClimbs && !f.Slow:
		return v.climb(warn, p.Cycle.Escalation, f)
	case detector == finding.Tool && p.climbs && !f.Worked && !f.Slow:
		return v.climb(warn, p.Tool.Escalation, f)
	case f.Level < toolloop.Block:
		return warn
	case detector == finding.Cycle:
		return actionOf(p.Action)
	}
	return actionOf(p.BlockAction)
}

// leadOn returns the action of a detection by its level: if warnings are at least hints, an
// unheeded hint leads to the action of a block.
func leadOn(f *toolloop.Detection, warn, block checkpb.Action) checkpb.Action {
	if f.Level < toolloop.Block || warn < checkpb.Action_ACTION_HINT {
		return warn
	}
	return max(warn, block)
}

// answerTo returns the answer to a request that a detection rejects. A break has none:
// it stops the agent, and must not look like an answer of the model.
func (v *Watch) answerTo(f *toolloop.Detection) checkpb.Answer {
	if finding.DetectorOf(f.Rule) == finding.Cycle {
		return v.watch.GetCycleAnswer()
	}
	return v.watch.GetBlockAnswer()
}

// climb returns the action of the highest step that a detection has reached, or action. For polls
// each step is PollMultiplier times as high.
func (v *Watch) climb(action checkpb.Action, steps []policy.Step, f *toolloop.Detection) checkpb.Action {
	patience := 1
	if f.Poll {
		patience = max(v.params.PollMultiplier, 1)
	}
	for _, step := range steps {
		if f.Count >= step.At*patience {
			action = actionOf(step.Action)
		}
	}
	return action
}

// Release returns the update that releases an agent's session, for an operator: its
// counts begin again, although its next request shows all calls again. kept is how long
// the policy remembers the agent; 0 if unknown.
func Release(ref *checkpb.CounterRef, kept time.Duration) Update[toolloop.State] {
	shadow, id, agent := ref.GetShadow(), ref.GetPolicy(), ref.GetFingerprint()
	usual := toolloop.DefaultParams()
	idle := usual.Idle()
	return Update[toolloop.State]{schemas.SessionKey(shadow, id, agent), func(s toolloop.State, _ time.Time) (toolloop.State, time.Duration) {
		if s.IsZero() {
			return s, 0
		}
		return toolloop.Release(s), max(kept, idle).Truncate(time.Second) + time.Second
	}}
}
