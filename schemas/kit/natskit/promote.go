package natskit

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/unloop/unloop/schemas"
)

// ErrOrigin means that the region's origin still runs.
var ErrOrigin = errors.New("the origin runs")

// Promote makes a region the origin: its mirrors become ordinary streams with the records
// that they have. It returns ErrOrigin, and changes nothing, while the former origin can be
// reached. It may be repeated.
func Promote(ctx context.Context, js jetstream.JetStream) error {
	var mirrors []jetstream.StreamConfig
	for _, bucket := range schemas.MirroredBuckets {
		stream, err := streamOf(ctx, js, BucketStream(bucket))
		if err != nil {
			return fmt.Errorf("look for the mirror %s: %w", bucket, err)
		}
		info := stream.CachedInfo()
		for _, c := range Copies(info) {
			if !c.Cut(time.Now()) {
				return fmt.Errorf("%w: region %s was heard of a moment ago; stop its servers, or cut the link, if it must not be the origin any more", ErrOrigin, c.Region)
			}
		}
		if info.Config.Mirror != nil {
			mirrors = append(mirrors, info.Config)
		}
	}
	for _, mirror := range mirrors {
		for _, own := range (Layout{}).Of([]string{mirror.Name}).Configs() {
			mirror.Mirror, mirror.Subjects = nil, own.Subjects
			mirror.Discard, mirror.DiscardNewPerSubject, mirror.MaxMsgsPerSubject = own.Discard, own.DiscardNewPerSubject, own.MaxMsgsPerSubject
		}
		if _, err := js.UpdateStream(ctx, mirror); err != nil {
			return fmt.Errorf("make %s a stream of this region: %w", strings.TrimPrefix(mirror.Name, BucketStream("")), err)
		}
	}
	return nil
}
