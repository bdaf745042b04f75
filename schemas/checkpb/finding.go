package checkpb

import (
	"cmp"
	"time"

	"github.com/unloop/unloop/schemas/finding"
)

// Facts returns the facts for describing the finding.
func (x *Finding) Facts() finding.Facts {
	return finding.Facts{
		Detector: x.GetDetector(), Rule: x.GetRule(), Tool: x.GetTool(), Count: int(x.GetHitCount()), Threshold: int(x.GetThreshold()),
		Window: time.Duration(x.GetWindowSeconds()) * time.Second, Action: x.GetAction().Label(),
	}
}

// Hint returns what the finding tells the model.
func (x *Finding) Hint() string { return cmp.Or(x.GetMessage(), x.Facts().Hint()) }
