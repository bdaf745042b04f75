package natskit

import (
	"cmp"
	"context"
	"fmt"
	"iter"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// Entries reads the entries of a bucket whose keys match a subject such as ">". An error
// comes last.
func Entries(ctx context.Context, js jetstream.JetStream, bucket, keys string, opts ...jetstream.WatchOpt) iter.Seq2[jetstream.KeyValueEntry, error] {
	return func(yield func(jetstream.KeyValueEntry, error) bool) {
		kv, err := js.KeyValue(ctx, bucket)
		if err != nil {
			yield(nil, fmt.Errorf("open bucket %s: %w", bucket, err))
			return
		}
		watch, err := kv.Watch(ctx, keys, opts...)
		if err != nil {
			yield(nil, fmt.Errorf("read bucket %s: %w", bucket, err))
			return
		}
		// It ends with its connection anyway, and waits for a server that is silent.
		defer func() { go func() { _ = watch.Stop() }() }()
		for entry := range watch.Updates() {
			if entry == nil || !yield(entry, nil) { // nil: all stored entries have come
				return
			}
		}
		yield(nil, fmt.Errorf("read bucket %s: %w", bucket, cmp.Or(ctx.Err(), nats.ErrConnectionClosed)))
	}
}
