package outcome

import (
	"cmp"
	"encoding/hex"
	"slices"

	"github.com/unloop/unloop/schemas/checkpb"
	"github.com/unloop/unloop/schemas/client"
)

// Decision returns the outcome in the form of the check API. fallbackID is the request's id
// if no policy looks at the request.
func (o *Outcome) Decision(fallbackID string) client.Decision {
	c, f, v, stop := o.of, o.Finding, o.limit, o.Stop()
	d := client.Decision{
		Action: checkpb.Action_ACTION_ALLOW.Label(), HitCount: c.hitCount(), Degraded: c.incomplete(),
		RequestID: cmp.Or(c.Check.GetRequestId(), fallbackID), Findings: findings(c.Decision),
	}
	if c.Exempt != "" {
		d.Reason = client.ReasonExempt
	}
	if f != nil {
		d.Action, d.Reason, d.Message = f.GetAction().Label(), client.ReasonLoop, c.Look.message(f, 0)
		d.LoopID, d.HitCount, d.DelayMS = f.GetLoopId(), int(f.GetHitCount()), int(f.GetDelayMs())
	}
	if v != nil && v.GetAction() >= f.GetAction() {
		d.Action, d.Reason, d.Message = v.GetAction().Label(), client.ReasonLimited, limitMessage(v, 0)
		d.DelayMS = max(d.DelayMS, int(v.GetDelayMs()))
	}
	if stop.Action.Stops() {
		d.Action, d.Reason, d.Message, d.RetryAfterSeconds = stop.Action.Label(), stop.Reason, stop.Message, stop.Wait
	}
	return d
}

// hitCount returns the highest count that is not shadow.
func (c *Case) hitCount() int {
	most := uint32(0)
	for i, n := range c.Decision.GetHitCounts() {
		if counters := c.Check.GetCounters(); i < len(counters) && !counters[i].GetShadow() {
			most = max(most, n)
		}
	}
	return int(most)
}

// findings returns the findings, strongest first and shadow last.
func findings(d *checkpb.Decision) []client.Finding {
	found := slices.Clone(d.GetFindings())
	slices.SortStableFunc(found, func(a, b *checkpb.Finding) int {
		return cmp.Or(compareBool(a.GetShadow(), b.GetShadow()), byStrength(a, b), cmp.Compare(a.GetPolicy(), b.GetPolicy()))
	})
	out := make([]client.Finding, len(found))
	for i, f := range found {
		out[i] = client.Finding{
			Policy: f.GetPolicy(), Detector: f.GetDetector(), Action: f.GetAction().Label(), Shadow: f.GetShadow(),
			Fingerprint: hex.EncodeToString(f.GetFingerprint()), HitCount: int(f.GetHitCount()), Threshold: int(f.GetThreshold()),
			WindowSeconds: int(f.GetWindowSeconds()), CooldownSeconds: int(f.GetCooldownSeconds()), LoopID: f.GetLoopId(),
			Rule: f.GetRule(), Tool: f.GetTool(), BackoffSeconds: int(f.GetBackoffSeconds()), Message: f.Hint(),
		}
	}
	return out
}

// ToolDecision returns the outcome in the form for tool runners.
func (o *Outcome) ToolDecision(fallbackID string) client.ToolDecision {
	v := o.Decision(fallbackID)
	d := client.ToolDecision{
		Action: RunAction(v.Action), Reason: v.Reason, Message: v.Message, LoopID: v.LoopID,
		Degraded: v.Degraded, RequestID: v.RequestID, Findings: v.Findings,
	}
	if o.Finding != nil {
		// A model reads this, so it names no policies. The code distinguishes it from a
		// tool's result when it comes back in a history.
		d.Message = codeLoop + ": " + o.Finding.Hint()
	}
	for _, r := range o.of.Decision.GetToolReports() {
		if r.GetShadow() || int(r.GetStreak()) < d.Counts.Streak {
			continue
		}
		d.BackoffSeconds = max(d.BackoffSeconds, int(r.GetBackoffSeconds()))
		d.Counts = toolCounts(r)
	}
	return d
}

// RunAction returns what an action means for a tool's call: a hint can only be given with
// the result, and a throttle is up to the tool runner.
func RunAction(action string) string {
	switch action {
	case client.ActionReject:
		return client.ActionBlock
	case client.ActionHint, client.ActionThrottle:
		return client.ActionWarn
	default:
		return action
	}
}

func toolCounts(r *checkpb.ToolReport) client.ToolCounts {
	return client.ToolCounts{
		Streak: int(r.GetStreak()), Repeats: int(r.GetRepeats()), WarnThreshold: int(r.GetWarnThreshold()), BlockThreshold: int(r.GetBlockThreshold()),
		Poll: r.GetPoll(), Calls: int(r.GetCalls()), Total: int(r.GetTotal()), Unique: int(r.GetUnique()), Blocked: int(r.GetBlocked()),
		MostRepeated: r.GetMostRepeated(), MostRepeatedCount: int(r.GetMostRepeatedCount()),
	}
}
