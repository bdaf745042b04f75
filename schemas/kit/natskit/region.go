package natskit

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/unloop/unloop/schemas"
	"github.com/unloop/unloop/schemas/kit/pause"
)

// Region is the role of a cluster among several regions. Each region has a JetStream domain
// of its own, of the same name. The zero value is a single cluster.
type Region struct {
	// Name is the cluster's own region.
	Name string
	// Origin is the region whose policies and overrides this one mirrors; "" at the origin.
	Origin string
	// Others are the regions whose events and audit the origin collects.
	Others []string
}

// ErrMirror means that the records of a stream come from another region.
var ErrMirror = errors.New("run this command there")

// mirrorHistory is the factor by which a mirror's history per key is longer than the
// origin's: the origin deletes records to make room, which mirrors do not see.
const mirrorHistory = 16

// placed adds mirrors and sources to the streams.
func (r Region) placed(all []jetstream.StreamConfig) []jetstream.StreamConfig {
	for i := range all {
		cfg := &all[i]
		if r.Origin != "" && slices.Contains(schemas.MirroredBuckets, strings.TrimPrefix(cfg.Name, BucketStream(""))) {
			cfg.Subjects, cfg.Mirror = nil, copied(cfg.Name, r.Origin, r.Name)
			// What the origin took is never refused here.
			cfg.Discard, cfg.DiscardNewPerSubject = jetstream.DiscardOld, false
			cfg.MaxMsgsPerSubject *= mirrorHistory
		}
		if slices.Contains(schemas.CollectedStreams, cfg.Name) {
			for _, other := range r.Others {
				cfg.Sources = append(cfg.Sources, copied(cfg.Name, other, other))
			}
		}
	}
	return all
}

// copied returns the source for a stream of a region, over a link.
func copied(name, region, link string) *jetstream.StreamSource {
	return &jetstream.StreamSource{Name: name, External: &jetstream.ExternalStream{
		APIPrefix: strings.TrimSuffix(apiSubject(region, ""), "."), DeliverPrefix: schemas.RegionSubject(link),
	}}
}

// Copy is the state of a stream that copies one of another region.
type Copy struct {
	Stream string `json:"stream"`
	// Region is where the records come from.
	Region string `json:"region"`
	// Behind is the number of missing records, as far as known.
	Behind uint64 `json:"behind"`
	// Heard is the last time that the other region was heard; zero for never.
	Heard time.Time `json:"heard,omitzero"`
	// Fault is NATS's error for a copy that does not continue.
	Fault string `json:"fault,omitempty"`
}

// cutAfter is the time after which a silent region counts as cut off. Both sides send a
// heartbeat each second.
const cutAfter = 5 * time.Second

// Cut reports whether the other region can't be reached.
func (c Copy) Cut(now time.Time) bool { return c.Heard.IsZero() || now.Sub(c.Heard) > cutAfter }

// Copies returns what a stream copies from other regions.
func Copies(info *jetstream.StreamInfo) (all []Copy) {
	for _, from := range append(slices.Clone(info.Sources), info.Mirror) {
		if from == nil || from.External == nil {
			continue
		}
		c := Copy{Stream: info.Config.Name, Region: regionOf(from.External), Behind: from.Lag}
		if from.Active >= 0 {
			c.Heard = info.TimeStamp.Add(-from.Active)
		}
		if from.Error != nil {
			c.Fault = from.Error.Description
		}
		all = append(all, c)
	}
	slices.SortFunc(all, func(a, b Copy) int { return strings.Compare(a.Region, b.Region) })
	return all
}

// regionOf returns the region, and domain, of an API's prefix.
func regionOf(external *jetstream.ExternalStream) string {
	return strings.TrimSuffix(strings.TrimPrefix(external.APIPrefix, "$JS."), ".API")
}

// follows returns an error if an existing stream does not copy what it should.
func follows(cfg, is jetstream.StreamConfig) error {
	switch {
	case cfg.Mirror == nil && is.Mirror == nil, cfg.Mirror != nil && sameSource(cfg.Mirror, is.Mirror):
		return nil
	case cfg.Mirror == nil && is.Mirror.External == nil:
		return fmt.Errorf("%w: %s mirrors another stream", ErrStreamUnfit, cfg.Name)
	case cfg.Mirror == nil:
		return fmt.Errorf("%w: %s mirrors region %s, but this one is its own origin: save it (unloop backup), remove it (nats stream rm %[2]s), and create it anew",
			ErrStreamUnfit, cfg.Name, regionOf(is.Mirror.External))
	default:
		return fmt.Errorf("%w: %s has records of its own and can't mirror region %s: save it (unloop backup), remove it (nats stream rm %[2]s), and run unloop nats init again",
			ErrStreamUnfit, cfg.Name, regionOf(cfg.Mirror.External))
	}
}

func sameSource(a, b *jetstream.StreamSource) bool {
	return a != nil && b != nil && b.External != nil && a.Name == b.Name && *a.External == *b.External
}

func sameSources(wanted, has []*jetstream.StreamSource) bool {
	return len(wanted) == len(has) && !slices.ContainsFunc(wanted, func(want *jetstream.StreamSource) bool {
		return !slices.ContainsFunc(has, func(one *jetstream.StreamSource) bool { return sameSource(want, one) })
	})
}

// MirrorFault returns an ErrMirror if a bucket mirrors one of another region.
func MirrorFault(ctx context.Context, js jetstream.JetStream, bucket string) error {
	stream, err := js.Stream(ctx, BucketStream(bucket))
	if err != nil {
		return err
	}
	if from := stream.CachedInfo().Config.Mirror; from != nil && from.External != nil {
		return fmt.Errorf("%s comes from region %s: %w", bucket, regionOf(from.External), ErrMirror)
	}
	return nil
}

// AwaitOrigin waits until the mirrors have caught up with the origin.
func AwaitOrigin(ctx context.Context, js jetstream.JetStream) error {
	for _, bucket := range schemas.MirroredBuckets {
		for {
			stream, err := streamOf(ctx, js, BucketStream(bucket))
			if err == nil && upToDate(stream.CachedInfo()) {
				break
			}
			if pause.For(ctx, caughtUpPause) != nil {
				return fmt.Errorf("the streams are there, but %s has heard nothing of the origin: its servers must run and let this region join, and its streams must be there (unloop nats init at the origin)", bucket)
			}
		}
	}
	return nil
}

// upToDate reports whether all copies of a stream have caught up.
func upToDate(info *jetstream.StreamInfo) bool {
	return !slices.ContainsFunc(Copies(info), func(c Copy) bool { return c.Cut(info.TimeStamp) || c.Behind > 0 })
}
