package evidence

import (
	"github.com/unloop/unloop/gateway/internal/bundle"
	"github.com/unloop/unloop/gateway/internal/usage"
	"github.com/unloop/unloop/schemas/checkpb"
)

// Limit is a policy's rule that applies to a request, and its entry in the check.
type Limit struct {
	Rule *bundle.Limit
	Wire *checkpb.Limit
	// Cost returns what an answer cost in the rule's unit; nil for costs that are
	// known before the answer.
	Cost func(usage.Usage) float64
	// Oversized is the reason why the rule never lets a request of this size
	// through; "" if it may.
	Oversized string
}

// Verdict is a limit and the detector's verdict on it.
type Verdict struct {
	Limit
	*checkpb.LimitVerdict
}

// Verdicts pairs the limits of a check with the verdicts of its decision. It
// returns nil for a decision without verdicts: of an older detector, or from memory.
func Verdicts(limits []Limit, d *checkpb.Decision) []Verdict {
	all := d.GetLimits()
	if len(all) != len(limits) {
		return nil
	}
	out := make([]Verdict, len(all))
	for i, v := range all {
		out[i] = Verdict{limits[i], v}
	}
	return out
}
