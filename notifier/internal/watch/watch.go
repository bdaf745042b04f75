// Package watch keeps a board in sync with NATS: it follows buckets, the stream of events and
// released loops, and asks the parts of the system for their status.
//
// It does not know what the board is used for.
package watch

import (
	"context"
	"log/slog"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"golang.org/x/sync/errgroup"
	"google.golang.org/protobuf/proto"

	"github.com/unloop/unloop/notifier/internal/board"
	"github.com/unloop/unloop/schemas"
	"github.com/unloop/unloop/schemas/checkpb"
	"github.com/unloop/unloop/schemas/kit/natskit"
	"github.com/unloop/unloop/schemas/kit/seal"
)

// Watcher keeps a board in sync. Make it with New.
type Watcher struct {
	nc     *natskit.Conn
	layout natskit.Layout
	board  *board.Board
	trust  seal.Trust
	log    *slog.Logger
	polls  polls
}

// New returns a watcher for a board; Run starts it. trust verifies records of operators.
func New(nc *natskit.Conn, layout natskit.Layout, trust seal.Trust, b *board.Board, log *slog.Logger) *Watcher {
	return &Watcher{nc: nc, layout: layout, trust: trust, board: b, log: log}
}

// Run follows everything until the context ends, also across lost connections.
func (w *Watcher) Run(ctx context.Context) error {
	stop, err := w.nc.Subscribe(schemas.SubjectForget, w.onForget)
	if err != nil {
		return err
	}
	defer stop()
	f := &natskit.Follower{Conn: w.nc, Layout: w.layout, Log: w.log}
	group, ctx := errgroup.WithContext(ctx)
	for bucket, into := range map[string]records{
		schemas.BucketIncidents:  w.board.Incidents,
		schemas.BucketSilences:   w.board.Silences,
		schemas.BucketDeliveries: w.board.Deliveries,
	} {
		group.Go(func() error {
			return f.Follow(ctx, bucket, ">", func(entries []jetstream.KeyValueEntry, all bool) { update(into, entries, all) })
		})
	}
	group.Go(func() error { return w.followSealed(ctx, f, schemas.BucketPolicies, schemas.KeyBundle, w.onBundle()) })
	group.Go(func() error { return w.followSealed(ctx, f, schemas.BucketOverrides, ">", w.onOverrides()) })
	group.Go(func() error { return w.followEvents(ctx) })
	return group.Wait()
}

// followSealed follows records with their history. It does not trust a consumer if they need a
// seal: whoever can write to the stream can store a message that a consumer takes for a
// heartbeat.
func (w *Watcher) followSealed(ctx context.Context, f *natskit.Follower, bucket, keys string, apply func([]jetstream.KeyValueEntry, bool)) error {
	if w.trust.Checks() {
		return f.Track(ctx, bucket, keys, apply)
	}
	return f.Follow(ctx, bucket, keys, apply, jetstream.IncludeHistory())
}

// records are the records of a bucket.
type records interface {
	Put(key string, value []byte)
	Delete(key string)
	Replace(all []board.Entry)
}

// update applies entries of a bucket. An entry without a value is about to be removed.
func update(into records, entries []jetstream.KeyValueEntry, all bool) {
	stored := func(e jetstream.KeyValueEntry) bool {
		return e.Operation() == jetstream.KeyValuePut && len(e.Value()) > 0
	}
	if all {
		var values []board.Entry
		for _, e := range entries {
			if stored(e) {
				values = append(values, board.Entry{Key: e.Key(), Value: e.Value()})
			}
		}
		into.Replace(values)
		return
	}
	for _, e := range entries {
		if stored(e) {
			into.Put(e.Key(), e.Value())
		} else {
			into.Delete(e.Key())
		}
	}
}

// onBundle returns the handler of pushed bundles.
func (w *Watcher) onBundle() func([]jetstream.KeyValueEntry, bool) {
	pushed := &seal.Register{Trust: w.trust, Bucket: schemas.BucketPolicies}
	return func(entries []jetstream.KeyValueEntry, all bool) {
		if changed := pushed.Take(entries, all); len(changed) == 0 && !all {
			return
		}
		content, ok := pushed.Content(schemas.KeyBundle)
		if !ok {
			w.board.Bundle.Set(nil, time.Time{})
			return
		}
		at := pushed.At(schemas.KeyBundle)
		if at.IsZero() {
			at = entries[len(entries)-1].Created()
		}
		w.board.Bundle.Set(content, at)
	}
}

// onOverrides returns the handler of blocks and exemptions.
func (w *Watcher) onOverrides() func([]jetstream.KeyValueEntry, bool) {
	set := &seal.Register{Trust: w.trust, Bucket: schemas.BucketOverrides, Lasts: schemas.OverrideExpiry}
	return func(entries []jetstream.KeyValueEntry, all bool) {
		for _, key := range set.Take(entries, all) {
			if content, ok := set.Content(key); ok {
				w.board.Overrides.Put(key, content)
			} else {
				w.board.Overrides.Delete(key)
			}
		}
	}
}

// onForget removes the record of a released loop, which leaves no tombstone in its bucket.
func (w *Watcher) onForget(msg *nats.Msg) {
	var f checkpb.Forget
	if err := proto.Unmarshal(msg.Data, &f); err != nil || f.GetLoopId() == "" {
		return
	}
	w.board.Incidents.Release(f.GetLoopId())
}
