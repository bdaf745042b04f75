package natskit

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"golang.org/x/sync/errgroup"

	"github.com/unloop/unloop/schemas"
	"github.com/unloop/unloop/schemas/kit/partition"
	"github.com/unloop/unloop/schemas/kit/pause"
)

// ErrFewer means that there are more partitions than asked for.
var ErrFewer = errors.New("partitions cannot become fewer")

const (
	// movers bounds the records that are moved concurrently.
	movers = 32
	// sweepPause is the pause between two sweeps.
	sweepPause = time.Second
)

// Growth adds partitions to buckets while services use them. If its process dies, another
// Growth to the same number continues.
type Growth struct {
	JS     jetstream.JetStream
	Layout Layout
	// Sealing is how long the first phase lasts; 0 for partition.SealingTime.
	Sealing time.Duration
	// Allowed, if not nil, returns an error if a growth must not begin.
	Allowed func(context.Context) error
	// Note, if not nil, is told of each phase.
	Note func(string)
}

// ReadPartitions returns the scheme of the partitions. known is false if the stream that has it is
// missing.
func ReadPartitions(ctx context.Context, js jetstream.JetStream) (s partition.Scheme, known bool, err error) {
	stream, err := streamOf(ctx, js, BucketStream(partition.Truth))
	switch {
	case errors.Is(err, jetstream.ErrStreamNotFound):
		return partition.Scheme{Count: 1}, false, nil
	case err != nil:
		return partition.Scheme{}, false, fmt.Errorf("ask for the partitions: %w", err)
	}
	return partition.Parse(stream.CachedInfo().Config.Metadata), true, nil
}

// SchemeOf returns the scheme of the partitions if the stream is the one that has it.
func SchemeOf(stream jetstream.StreamConfig) (s partition.Scheme, has bool) {
	if stream.Name != BucketStream(partition.Truth) {
		return partition.Scheme{}, false
	}
	return partition.Parse(stream.Metadata), true
}

// Run creates the missing streams of the layout, and moves records to new partitions. A
// layout with 0 partitions keeps their number.
func (g *Growth) Run(ctx context.Context) ([]Prepared, error) {
	s, known, err := ReadPartitions(ctx, g.JS)
	if err != nil {
		return nil, err
	}
	if g.Layout.Partitions, err = wanted(s, cmp.Or(g.Layout.Partitions, s.Count)); err != nil {
		return nil, err
	}
	grows := known && s.Count < g.Layout.Partitions
	if grows && g.Allowed != nil {
		if err := g.Allowed(ctx); err != nil {
			return nil, fmt.Errorf("grow from %d to %d partitions: %w", s.Count, g.Layout.Partitions, err)
		}
	}
	done, err := Prepare(ctx, g.JS, g.Layout)
	if err != nil || !known {
		return done, err
	}
	if grows {
		s, err = g.Begin(ctx)
	}
	if err == nil && s.Phase == partition.Sealing {
		g.note(fmt.Sprintf("From %d to %d partitions: services learn of it.", s.Before, s.Count))
		if err = pause.For(ctx, cmp.Or(g.Sealing, partition.SealingTime)); err == nil {
			s, err = g.Proceed(ctx, partition.Moving)
		}
	}
	if err == nil && s.Phase == partition.Moving {
		g.note("Moving records. Some are as they were for half a minute.")
		if err = g.sweep(ctx, s); err == nil {
			_, err = g.Proceed(ctx, partition.Settled)
		}
	}
	if err != nil {
		err = fmt.Errorf("move records to %d partitions (nothing is lost; run it again to go on): %w", s.Count, err)
	}
	return done, err
}

// wanted validates the requested number of partitions, and returns it.
func wanted(s partition.Scheme, count int) (int, error) {
	if err := partition.Valid(count); err != nil {
		return 0, err
	}
	switch {
	case count < s.Count:
		return 0, fmt.Errorf("%w: there are %d, and %d were asked for", ErrFewer, s.Count, count)
	case count > s.Count && s.Phase != partition.Settled:
		return 0, fmt.Errorf("the growth from %d to %d partitions has not ended: run this with %d first", s.Before, s.Count, s.Count)
	}
	return count, nil
}

func (g *Growth) note(text string) {
	if g.Note != nil {
		g.Note(text)
	}
}

// Begin begins the first phase.
func (g *Growth) Begin(ctx context.Context) (partition.Scheme, error) {
	return g.change(ctx, func(s partition.Scheme) partition.Scheme {
		return partition.Scheme{Count: g.Layout.Partitions, Before: s.Count, Phase: partition.Sealing, Grown: time.Now()}
	})
}

// Proceed begins another phase.
func (g *Growth) Proceed(ctx context.Context, phase partition.Phase) (partition.Scheme, error) {
	return g.change(ctx, func(s partition.Scheme) partition.Scheme {
		s.Phase = phase
		return s
	})
}

// change changes the scheme.
func (g *Growth) change(ctx context.Context, to func(partition.Scheme) partition.Scheme) (partition.Scheme, error) {
	stream, err := streamOf(ctx, g.JS, BucketStream(partition.Truth))
	if err != nil {
		return partition.Scheme{}, fmt.Errorf("ask for the partitions: %w", err)
	}
	cfg := stream.CachedInfo().Config
	s := to(partition.Parse(cfg.Metadata))
	cfg.Metadata = s.Metadata(cfg.Metadata)
	if _, err := g.JS.UpdateStream(ctx, cfg); err != nil {
		return s, fmt.Errorf("change the partitions: %w", err)
	}
	return s, nil
}

// sweep moves all records from their former places, and returns when the leaders there list
// none. Moved records leave a seal there for a while.
func (g *Growth) sweep(ctx context.Context, s partition.Scheme) error {
	for wait := partition.SealTime; ; wait = sweepPause {
		left, err := g.Sweep(ctx, s)
		if err != nil || left == 0 {
			return err
		}
		if err := pause.For(ctx, wait); err != nil {
			return err
		}
	}
}

// Sweep moves the records that are at former places once, and returns how many records and
// seals it found.
func (g *Growth) Sweep(ctx context.Context, s partition.Scheme) (left int, err error) {
	for _, bucket := range partition.Buckets {
		if bucket == schemas.BucketVectors { // in parts
			continue
		}
		for _, name := range partition.Names(bucket, s.Before) {
			ask := func(offset int) (page, error) { return askPage(ctx, g.JS, name, offset) }
			err := usualWalker.walk(ask, func(keys []string) error {
				keys = slices.DeleteFunc(keys, func(key string) bool { return s.Former(bucket, key) != name })
				left += len(keys)
				return g.move(ctx, s, bucket, keys)
			})
			if err != nil && !errors.Is(err, jetstream.ErrStreamNotFound) {
				return left, fmt.Errorf("look for records to move: %w", err)
			}
		}
	}
	return left, nil
}

// move moves the records of keys. For a record that was already moved it sends a single
// request.
func (g *Growth) move(ctx context.Context, s partition.Scheme, bucket string, keys []string) error {
	m := partition.Mover{
		// A retried write, whose answer was lost, fails its compare-and-set.
		Ask: func(ctx context.Context, msg *nats.Msg) (data []byte, err error) {
			err = patiently(ctx, func(ctx context.Context) error {
				answer, err := g.JS.Conn().RequestMsgWithContext(ctx, msg)
				if err == nil {
					data = answer.Data
				}
				return err
			})
			return data, err
		},
		API:    func(call string) string { return APISubject(g.JS, call) },
		Record: func(bucket, key string) string { return RecordSubject(g.JS, bucket, key) },
	}
	var group errgroup.Group
	group.SetLimit(movers)
	for _, key := range keys {
		group.Go(func() error { return m.Move(ctx, s, bucket, key) })
	}
	return group.Wait()
}
