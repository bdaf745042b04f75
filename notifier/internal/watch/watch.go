// Package watch keeps a board in step with NATS: it follows buckets and the stream of
// events, hears of releases, and asks the parts of the system for their status.
//
// It does not know what the board is shown for.
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
)

// Watcher keeps a board in step. Make it with New.
type Watcher struct {
	nc     *natskit.Conn
	layout natskit.Layout
	board  *board.Board
	log    *slog.Logger
	polls  polls
}

// New returns a watcher of the board; Run starts it.
func New(nc *natskit.Conn, layout natskit.Layout, b *board.Board, log *slog.Logger) *Watcher {
	return &Watcher{nc: nc, layout: layout, board: b, log: log}
}

// Run follows everything until the context ends, whatever happens to the connection.
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
		schemas.BucketOverrides:  w.board.Overrides,
		schemas.BucketDeliveries: w.board.Deliveries,
	} {
		group.Go(func() error {
			return f.Follow(ctx, bucket, ">", func(entries []jetstream.KeyValueEntry, all bool) { update(into, entries, all) })
		})
	}
	group.Go(func() error { return f.Follow(ctx, schemas.BucketPolicies, schemas.KeyBundle, w.onBundle) })
	group.Go(func() error { return w.followEvents(ctx) })
	return group.Wait()
}

// records are the records of a bucket.
type records interface {
	Put(key string, value []byte)
	Delete(key string)
	Replace(all []board.Entry)
}

// update applies entries of a bucket. One without a value is about to be removed.
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

func (w *Watcher) onBundle(entries []jetstream.KeyValueEntry, all bool) {
	for _, e := range entries {
		if e.Operation() == jetstream.KeyValuePut {
			w.board.Bundle.Set(e.Value(), e.Created())
		} else {
			w.board.Bundle.Set(nil, time.Time{})
		}
	}
	if all && len(entries) == 0 {
		w.board.Bundle.Set(nil, time.Time{})
	}
}

// onForget removes the record of a released loop, which leaves no marker in its bucket.
func (w *Watcher) onForget(msg *nats.Msg) {
	var f checkpb.Forget
	if err := proto.Unmarshal(msg.Data, &f); err != nil || f.GetLoopId() == "" {
		return
	}
	w.board.Incidents.Release(f.GetLoopId())
}
