package natskit

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/unloop/unloop/schemas"
)

// Leftover returns the streams of other releases, which this one does not read: they are
// named like Unloop's and have records.
func Leftover(ctx context.Context, js jetstream.JetStream) ([]*jetstream.StreamInfo, error) {
	left, _, err := leftover(ctx, js)
	return left, err
}

// leftover is Leftover that also returns the fault of streams that this release can't
// continue.
func leftover(ctx context.Context, js jetstream.JetStream) (left []*jetstream.StreamInfo, fault, err error) {
	known := Layout{}.Everything().Streams()
	var faults []error
	list := js.ListStreams(ctx)
	for info := range list.Info() {
		name := strings.TrimPrefix(info.Config.Name, BucketStream(""))
		switch {
		case slices.Contains(known, info.Config.Name):
			faults = append(faults, StateFault(info.Config))
		case strings.HasPrefix(name, schemas.StreamPrefix) && info.State.Msgs > 0 && !slices.Contains(known, baseStream(info.Config.Name)):
			left = append(left, info)
		}
	}
	if err := list.Err(); err != nil {
		return nil, nil, fmt.Errorf("list the streams: %w", err)
	}
	return left, errors.Join(faults...), nil
}
