package natskit

import (
	"context"
	"fmt"

	"github.com/nats-io/nats.go/jetstream"
)

// Entries returns the entries of a bucket whose keys match a subject such as ">".
func Entries(ctx context.Context, js jetstream.JetStream, bucket, keys string, opts ...jetstream.WatchOpt) ([]jetstream.KeyValueEntry, error) {
	kv, err := js.KeyValue(ctx, bucket)
	if err != nil {
		return nil, fmt.Errorf("open bucket %s: %w", bucket, err)
	}
	watch, err := kv.Watch(ctx, keys, opts...)
	if err != nil {
		return nil, fmt.Errorf("read bucket %s: %w", bucket, err)
	}
	defer func() { _ = watch.Stop() }() // it ends with the connection anyway
	var all []jetstream.KeyValueEntry
	for entry := range watch.Updates() {
		if entry == nil { // all stored values have come
			break
		}
		all = append(all, entry)
	}
	return all, ctx.Err()
}
