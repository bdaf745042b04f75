package natskit

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/unloop/unloop/schemas"
)

// Leftover returns the streams that are named like Unloop's, have records, and are none of
// this release's: another release wrote them, and this one does not read them.
func Leftover(ctx context.Context, js jetstream.JetStream) ([]*jetstream.StreamInfo, error) {
	known := Layout{}.Everything().Streams()
	var left []*jetstream.StreamInfo
	list := js.ListStreams(ctx)
	for info := range list.Info() {
		name := strings.TrimPrefix(info.Config.Name, BucketStream(""))
		if strings.HasPrefix(name, schemas.StreamPrefix) && info.State.Msgs > 0 && !slices.Contains(known, baseStream(info.Config.Name)) {
			left = append(left, info)
		}
	}
	if err := list.Err(); err != nil {
		return nil, fmt.Errorf("list the streams: %w", err)
	}
	return left, nil
}
