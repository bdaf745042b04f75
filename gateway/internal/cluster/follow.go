package cluster

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/unloop/unloop/schemas/kit/natskit"
)

// retryAfter is the pause before a bucket that could not be watched is watched again.
const retryAfter = 250 * time.Millisecond

// follower follows keys of buckets.
type follower struct {
	nats   *natskit.Conn
	layout natskit.Layout
	log    *slog.Logger
}

// follow follows keys of a bucket until the context ends, whatever happens to the
// connection. apply is called with all entries at the beginning and after each loss
// of the connection (all is then true), and with each entry that changes.
func (f *follower) follow(ctx context.Context, bucket, keys string, apply func(entries []jetstream.KeyValueEntry, all bool)) error {
	reconnected, stopListening := f.nats.Changed()
	defer stopListening()
	for ctx.Err() == nil {
		err := f.watch(ctx, bucket, keys, apply, reconnected)
		if err == nil || ctx.Err() != nil {
			continue // a new connection, or the end
		}
		f.log.Debug("bucket can't be followed, trying again", "bucket", bucket, "error", err)
		select {
		case <-time.After(retryAfter):
		case <-ctx.Done():
		}
	}
	return nil
}

// watch follows until the connection was lost and is back: what was missed meanwhile
// is among the first entries of the next watch.
func (f *follower) watch(ctx context.Context, bucket, keys string, apply func([]jetstream.KeyValueEntry, bool), reconnected <-chan struct{}) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if err := f.nats.EnsureStreams(ctx, f.layout); err != nil {
		return err
	}
	kv, err := f.nats.JetStream().KeyValue(ctx, bucket)
	if err != nil {
		return fmt.Errorf("open bucket %s: %w", bucket, err)
	}
	watch, err := kv.Watch(ctx, keys)
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
