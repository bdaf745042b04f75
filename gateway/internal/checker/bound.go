package checker

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"

	"google.golang.org/protobuf/proto"

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

// bound shortens the names that a client chose. A longer name ends in a hash of it, so that
// it stays different from others.
func bound(check *checkpb.Check) {
	shorten(&check.Model)
	for _, w := range check.GetWatches() {
		if call := w.GetRun().GetCall(); call != nil {
			shorten(&call.Tool)
		}
		for _, item := range w.GetHistory().GetItems() {
			for _, call := range item.GetCalls() {
				shorten(&call.Tool)
			}
		}
	}
}

func shorten(name *string) {
	if len(*name) <= maxName {
		return
	}
	sum := sha256.Sum256([]byte(*name))
	short := hex.EncodeToString(sum[:8])
	*name = strings.ToValidUTF8((*name)[:maxName-len(short)-1], "") + "-" + short
}

// alone says whether a check shares no message with others.
func alone(check *checkpb.Check) bool { return waits(check) || proto.Size(check) > largeCheck }
