package natskit

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// trackSoon is the pause of Track after a write; it doubles up to trackIdle while nothing is
// written. After trackLooks of the longest, Track checks whether the stream was replaced.
const trackSoon, trackIdle, trackLooks = 20 * time.Millisecond, time.Second, 5

// Track is Follow by direct gets, with the earlier entries of each key. It is for buckets in
// which others can have anything stored: a stored message with a Status header would make a
// consumer of the client wait forever.
func (f *Follower) Track(ctx context.Context, bucket, keys string, apply func(entries []jetstream.KeyValueEntry, all bool)) error {
	written := make(chan struct{}, 1)
	stop, err := f.Conn.Subscribe("$KV."+bucket+"."+keys, func(*nats.Msg) { signal(written) })
	if err != nil {
		return err
	}
	defer stop()
	return f.again(ctx, bucket, func(reconnected <-chan struct{}) error {
		return f.track(ctx, bucket, keys, apply, reconnected, written)
	})
}

// track reads all entries and follows changes, until a lost connection is back or the
// stream was recreated.
func (f *Follower) track(ctx context.Context, bucket, keys string, apply func([]jetstream.KeyValueEntry, bool), reconnected, written <-chan struct{}) error {
	if err := f.Conn.EnsureStreams(ctx, f.Layout.Of([]string{BucketStream(bucket)})); err != nil {
		return err
	}
	js := f.Conn.JetStream()
	last := uint64(0)
	read := func(all bool) error {
		entries, err := storedFrom(ctx, js, bucket, keys, last+1)
		if err != nil {
			return err
		}
		if len(entries) > 0 {
			last = entries[len(entries)-1].Revision()
		}
		if len(entries) > 0 || all {
			apply(entries, all)
		}
		return nil
	}
	if err := read(true); err != nil {
		return err
	}
	idle := 0
	for next := trackIdle; ; {
		select {
		case <-ctx.Done():
			return nil
		case <-reconnected:
			return nil
		case <-written:
			next = trackSoon
		case <-time.After(next):
			next = min(2*next, trackIdle)
		}
		if err := read(false); err != nil {
			return err
		}
		if next == trackIdle {
			idle++
		}
		if idle < trackLooks {
			continue
		}
		idle = 0
		if stream, err := js.Stream(ctx, BucketStream(bucket)); err != nil || stream.CachedInfo().State.LastSeq < last {
			return err
		}
	}
}

// StoredEntries reads the entries of a bucket whose keys match a subject such as ">", oldest
// first, with the history of each key and deletions.
func StoredEntries(ctx context.Context, js jetstream.JetStream, bucket, keys string) ([]jetstream.KeyValueEntry, error) {
	return storedFrom(ctx, js, bucket, keys, 1)
}

func storedFrom(ctx context.Context, js jetstream.JetStream, bucket, keys string, from uint64) (all []jetstream.KeyValueEntry, err error) {
	prefix := "$KV." + bucket + "."
	for msg, err := range messagesFrom(ctx, js, bucket, keys, from) {
		if err != nil {
			return nil, fmt.Errorf("follow bucket %s: %w", bucket, err)
		}
		all = append(all, storedEntry{msg, bucket, strings.TrimPrefix(msg.Subject, prefix)})
	}
	return all, nil
}

// storedEntry is an entry that was read by a direct get.
type storedEntry struct {
	msg         Stored
	bucket, key string
}

func (e storedEntry) Bucket() string     { return e.bucket }
func (e storedEntry) Key() string        { return e.key }
func (e storedEntry) Value() []byte      { return e.msg.Data }
func (e storedEntry) Revision() uint64   { return e.msg.Sequence }
func (e storedEntry) Created() time.Time { return e.msg.At }
func (e storedEntry) Delta() uint64      { return 0 }

func (e storedEntry) Operation() jetstream.KeyValueOp {
	if e.msg.Deletes() {
		return jetstream.KeyValueDelete
	}
	return jetstream.KeyValuePut
}
