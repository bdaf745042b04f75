package outcome

import (
	"time"

	"github.com/unloop/unloop/schemas/checkpb"
	"github.com/unloop/unloop/schemas/finding"
)

// facts returns what is put into words of a finding.
func facts(f *checkpb.Finding) finding.Facts {
	return finding.Facts{
		Detector: f.GetDetector(), Rule: f.GetRule(), Tool: f.GetTool(), Count: int(f.GetHitCount()), Threshold: int(f.GetThreshold()),
		Window: time.Duration(f.GetWindowSeconds()) * time.Second,
	}
}

// handle says how people look at the loop of a finding and let it through; "" where the
// loop has no id.
func handle(f *checkpb.Finding) string {
	if f.GetLoopId() == "" {
		return ""
	}
	look := " See `unloop loops show " + f.GetLoopId() + "`"
	if !f.GetAction().Stops() {
		return look + "."
	}
	return look + ", let through with `unloop loops release " + f.GetLoopId() + "`."
}
