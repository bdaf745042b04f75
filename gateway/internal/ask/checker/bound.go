package checker

import (
	"google.golang.org/protobuf/proto"

	"github.com/unloop/unloop/schemas/bounded"
	"github.com/unloop/unloop/schemas/checkpb"
)

const (
	// maxName bounds the names of models and tools, which clients choose, in bytes.
	maxName = 256
	// largeCheck is the size, in bytes, from which a check has a message of its own, so that
	// others can't make its message too long.
	largeCheck = maxMessage / maxBatch
	// maxMessage is the longest message that is sent; servers take 1 MiB.
	maxMessage = 960 << 10
)

// bound shortens the names that the client chose.
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
