package outcome

import "github.com/unloop/unloop/schemas/checkpb"

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
