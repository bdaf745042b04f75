package standing

import (
	"slices"
	"time"

	"github.com/unloop/unloop/schemas/checkpb"
)

// restFor is how long a detector's answer about rules and other counters is valid.
const restFor = time.Second

// rest is a detector's answer about everything that stops a blocked request.
type rest struct {
	asked time.Time
	// answered is set if a detector answered.
	answered bool
	// after is the time from then until the request passes, in milliseconds; lasting is set
	// if it never does.
	after   uint64
	lasting bool
	// tools are the other findings that stop the request and name a tool.
	tools []*checkpb.Finding
}

// toolsOf returns the findings of a decision that stop its request and name a tool.
func toolsOf(d *checkpb.Decision) (out []*checkpb.Finding) {
	for _, f := range d.GetFindings() {
		if f.GetTool() != "" && f.GetAction().Stops() && !f.GetShadow() {
			out = append(out, f)
		}
	}
	return out
}

// beside returns when a blocked request would pass everything except its blocks. known is set
// if no detector needs to be asked: results of watches are valid as long as the block, those
// of rules and other counters for restFor.
func beside(now time.Time, check *checkpb.Check, blocked []hit) (after uint64, lasting, known bool) {
	counts, watches := counted(check, blocked), slices.ContainsFunc(check.GetWatches(), func(w *checkpb.ToolWatch) bool { return !w.GetShadow() })
	doubted := slices.ContainsFunc(blocked, func(h hit) bool { return h.doubted })
	if !counts && !watches {
		return 0, false, !doubted
	}
	for _, one := range blocked {
		r := &one.rest
		fresh := now.Sub(r.asked) < restFor
		if fresh && counts {
			after = max(after, r.after)
		}
		lasting, known = lasting || r.lasting, known || fresh || r.answered && !counts
	}
	return after, lasting, known && !doubted
}

// counted reports whether a rule, or a counter without a block, may stop the request.
func counted(check *checkpb.Check, blocked []hit) bool {
	return slices.ContainsFunc(check.GetLimits(), func(l *checkpb.Limit) bool { return !l.GetShadow() }) ||
		slices.ContainsFunc(check.GetCounters(), func(c *checkpb.Counter) bool {
			return !c.GetShadow() && stopping(c.GetSteps()) && !slices.ContainsFunc(blocked, func(h hit) bool { return h.counter == c })
		})
}
