package gateway

import (
	"context"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/unloop/unloop/gateway/internal/inforce"
	"github.com/unloop/unloop/schemas"
)

// rewatch is how long a gateway waits before it watches a bucket again that
// could not be watched.
const rewatch = 250 * time.Millisecond

// bucketFollower keeps something in step with keys of a bucket.
type bucketFollower interface {
	// reset takes all that is stored: it replaces what was known before.
	reset(entries []jetstream.KeyValueEntry)
	// update takes one entry that was put, deleted or purged since.
	update(entry jetstream.KeyValueEntry)
}

// followBucket follows keys of a bucket until the context ends, whatever
// happens to the connection. loaded is called after each reset.
func (g *Gateway) followBucket(ctx context.Context, bucket, keys string, f bucketFollower, loaded func()) error {
	reconnected, stopListening := g.deps.NATS.Changed()
	defer stopListening()
	for ctx.Err() == nil {
		err := g.watchBucket(ctx, bucket, keys, f, loaded, reconnected)
		if err == nil || ctx.Err() != nil {
			continue // a new connection, or the end
		}
		g.log.Debug("bucket can't be followed, trying again", "bucket", bucket, "error", err)
		select {
		case <-time.After(rewatch):
		case <-ctx.Done():
		}
	}
	return nil
}

// watchBucket follows until the connection was lost and is back: whatever was
// missed meanwhile is in the next watch's beginning.
func (g *Gateway) watchBucket(ctx context.Context, bucket, keys string, f bucketFollower, loaded func(), reconnected <-chan struct{}) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if err := g.deps.NATS.EnsureStreams(ctx, g.deps.Layout); err != nil {
		return err
	}
	kv, err := g.deps.NATS.JetStream().KeyValue(ctx, bucket)
	if err != nil {
		return fmt.Errorf("open bucket %s: %w", bucket, err)
	}
	watch, err := kv.Watch(ctx, keys)
	if err != nil {
		return fmt.Errorf("watch bucket %s: %w", bucket, err)
	}
	// It ends with its context anyway, and waits for a server that is silent.
	defer func() { go func() { _ = watch.Stop() }() }()
	first, loading := []jetstream.KeyValueEntry{}, true
	for {
		select {
		case entry, open := <-watch.Updates():
			switch {
			case !open:
				return fmt.Errorf("watch bucket %s: %w", bucket, nats.ErrConnectionClosed)
			case loading && entry == nil:
				loading = false
				f.reset(first)
				loaded()
			case loading:
				first = append(first, entry)
			case entry != nil:
				f.update(entry)
			}
		case <-reconnected:
			return nil
		case <-ctx.Done():
			return nil
		}
	}
}

// followPushed follows the bundle that operators push to all gateways.
func (g *Gateway) followPushed(ctx context.Context, loaded func()) error {
	return g.followBucket(ctx, schemas.BucketPolicies, schemas.KeyBundle, pushedBundle{g.bundles}, loaded)
}

// pushedBundle follows the bundle's one key.
type pushedBundle struct{ bundles *inforce.Policies }

func (p pushedBundle) reset(entries []jetstream.KeyValueEntry) {
	if len(entries) == 0 {
		p.bundles.Pushed(nil)
		return
	}
	p.update(entries[len(entries)-1])
}

func (p pushedBundle) update(entry jetstream.KeyValueEntry) {
	if entry.Operation() != jetstream.KeyValuePut {
		p.bundles.Pushed(nil)
		return
	}
	p.bundles.Pushed(entry.Value())
}
