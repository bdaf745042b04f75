package natskit

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/unloop/unloop/schemas/kit/pause"
)

// followAfter is the pause before a bucket that could not be watched is watched again.
const followAfter = 250 * time.Millisecond

// Follower follows keys of buckets.
type Follower struct {
	Conn   *Conn
	Layout Layout
	Log    *slog.Logger
}

// Follow follows keys of a bucket until the context ends, across outages. It calls apply with
// all entries at first and after each reconnect (all is then true), and with each change.
// With jetstream.IncludeHistory, the earlier entries of each key come before its last.
func (f *Follower) Follow(ctx context.Context, bucket, keys string, apply func(entries []jetstream.KeyValueEntry, all bool), opts ...jetstream.WatchOpt) error {
	return f.again(ctx, bucket, func(reconnected <-chan struct{}) error {
		return f.watch(ctx, bucket, keys, apply, reconnected, opts)
	})
}

// again calls follow until the context ends, with a pause after each error.
func (f *Follower) again(ctx context.Context, bucket string, follow func(reconnected <-chan struct{}) error) error {
	reconnected, stopListening := f.Conn.Changed()
	defer stopListening()
	for ctx.Err() == nil {
		if err := follow(reconnected); err != nil && ctx.Err() == nil {
			f.Log.Debug("bucket cannot be followed, retrying", "bucket", bucket, "error", err)
			_ = pause.For(ctx, followAfter) // the loop looks whether that was the end
		}
	}
	return nil
}

// watch follows until the connection was lost and is back. The next watch begins with all
// entries.
func (f *Follower) watch(ctx context.Context, bucket, keys string, apply func([]jetstream.KeyValueEntry, bool), reconnected <-chan struct{}, opts []jetstream.WatchOpt) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if err := f.Conn.EnsureStreams(ctx, f.Layout.Of([]string{BucketStream(bucket)})); err != nil {
		return err
	}
	kv, err := f.Conn.JetStream().KeyValue(ctx, bucket)
	if err != nil {
		return fmt.Errorf("open bucket %s: %w", bucket, err)
	}
	watch, err := kv.Watch(ctx, keys, opts...)
	if err != nil {
		return fmt.Errorf("watch bucket %s: %w", bucket, err)
	}
	// It ends with its context anyway, and waits for a server that is silent.
	defer func() { go func() { _ = watch.Stop() }() }()
	var first []jetstream.KeyValueEntry
	loading := true
	for {
		select {
		case entry, open := <-watch.Updates():
			switch {
			case !open:
				return fmt.Errorf("watch bucket %s: %w", bucket, nats.ErrConnectionClosed)
			case loading && entry == nil:
				loading = false
				apply(first, true)
			case loading:
				first = append(first, entry)
			case entry != nil:
				apply([]jetstream.KeyValueEntry{entry}, false)
			}
		case <-reconnected:
			return nil
		case <-ctx.Done():
			return nil
		}
	}
}
