package checker

import (
	"google.golang.org/protobuf/proto"

	"github.com/unloop/unloop/schemas/bounded"
	"github.com/unloop/unloop/schemas/checkpb"
)

const (
	// maxName bounds the names that clients choose, in bytes: models and tools.
	maxName = 256
	// largeCheck is the size from which a check travels alone, in bytes, so that no
	// message becomes too long by what others sent.
	largeCheck = maxMessage / maxBatch
	// maxMessage is the longest message that is sent; servers take 1 MiB.
	maxMessage = 960 << 10
)

// bound shortens the names that a client chose.
func bound(check *checkpb.Check) {
	check.Model = bounded.Name(check.GetModel(), maxName)
	for _, w := range check.GetWatches() {
		if call := w.GetRun().GetCall(); call != nil {
			call.Tool = bounded.Name(call.GetTool(), maxName)
		}
		for _, item := range w.GetHistory().GetItems() {
			for _, call := range item.GetCalls() {
				call.Tool = bounded.Name(call.GetTool(), maxName)
			}
		}
	}
}

// alone reports whether a check needs a message of its own.
func alone(check *checkpb.Check) bool { return proto.Size(check) > largeCheck }
