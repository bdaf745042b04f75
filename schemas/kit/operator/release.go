// Package operator carries out operators' actions on a running Unloop over NATS, for the
// command line and the dashboard.
//
// It does not check who may do so.
package operator

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"google.golang.org/protobuf/proto"

	"github.com/unloop/unloop/schemas"
	"github.com/unloop/unloop/schemas/checkpb"
)

// Errors of Release.
var (
	// ErrNoDetector means that no detector is running.
	ErrNoDetector = errors.New("no detector is running on this NATS server")
	// ErrNotOpen means that the loop is not open.
	ErrNotOpen = errors.New(checkpb.ErrorNotOpen)
)

// releaseTimeout bounds the release of a loop, with a wide margin.
const releaseTimeout = 15 * time.Second

// Release asks a detector to release a loop, and returns the number of counters that restart.
func Release(ctx context.Context, nc *nats.Conn, loopID string) (counters int, err error) {
	ctx, cancel := context.WithTimeout(ctx, releaseTimeout)
	defer cancel()
	body, err := proto.Marshal(&checkpb.ReleaseRequest{LoopId: loopID})
	if err != nil {
		return 0, fmt.Errorf("release %s: %w", loopID, err)
	}
	answer, err := nc.RequestWithContext(ctx, schemas.SubjectRelease, body)
	if errors.Is(err, nats.ErrNoResponders) {
		return 0, fmt.Errorf("release %s: %w", loopID, ErrNoDetector)
	}
	if err != nil {
		return 0, fmt.Errorf("release %s: %w", loopID, err)
	}
	var reply checkpb.ReleaseReply
	if err := proto.Unmarshal(answer.Data, &reply); err != nil {
		return 0, fmt.Errorf("release %s: %w", loopID, err)
	}
	switch reply.GetError() {
	case "":
		return max(len(reply.GetReleased()), int(reply.GetCount())), nil
	case checkpb.ErrorNotOpen:
		return 0, fmt.Errorf("release %s: %w", loopID, ErrNotOpen)
	default:
		return 0, fmt.Errorf("release %s: %s", loopID, reply.GetError())
	}
}
