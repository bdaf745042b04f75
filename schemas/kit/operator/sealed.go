package operator

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/unloop/unloop/schemas"
	"github.com/unloop/unloop/schemas/kit/natskit"
	"github.com/unloop/unloop/schemas/kit/seal"
)

// ErrSealed means that a record can't be replaced without the operator's seed.
var ErrSealed = errors.New("the records of this NATS server are sealed: give the operator's seed with --seal-seed, such as by the variables of operator.env")

// Store puts a record into force, and returns its revision. The time of its seal is later
// than that of all stored records of its key. Empty content removes the record in force; a
// TTL of 0 means none.
func Store(ctx context.Context, js jetstream.JetStream, by *seal.Signer, bucket, key string, content []byte, ttl time.Duration) (revision uint64, err error) {
	entries, err := natskit.StoredEntries(ctx, js, bucket, key)
	if err != nil {
		return 0, err
	}
	at := time.Now()
	trust := trustIn(by)
	for _, e := range entries {
		if by == nil && seal.Read(e.Value()).Sealed {
			return 0, ErrSealed
		}
		if r, err := trust.Open(bucket, key, e.Value()); err == nil && !r.At.Before(at) {
			at = r.At.Add(1)
		}
	}
	msg := &nats.Msg{Subject: natskit.RecordSubject(js, bucket, key)}
	if msg.Data, err = by.Seal(bucket, key, at, content); err != nil {
		return 0, err
	}
	var opts []jetstream.PublishOpt
	if ttl > 0 {
		opts = append(opts, jetstream.WithMsgTTL(ttl.Truncate(time.Second)))
	}
	ack, err := js.PublishMsg(ctx, msg, opts...)
	for try := 0; full(err) && try < maxTries; try++ { // a flood may take the room that is made
		if err = makeRoom(ctx, js, trust, bucket, key); err == nil {
			ack, err = js.PublishMsg(ctx, msg, opts...)
		}
	}
	if errors.Is(err, jetstream.ErrNoStreamResponse) {
		err = errors.Join(natskit.MirrorFault(ctx, js, bucket), err)
	}
	if err != nil {
		return 0, fmt.Errorf("store %s %s: %w", bucket, key, err)
	}
	return ack.Sequence, nil
}

// SealAnew seals the records again that are in force by a trust, such as those of a backup
// from a server with another seed, and returns their number.
func SealAnew(ctx context.Context, js jetstream.JetStream, by *seal.Signer, trust seal.Trust) (n int, err error) {
	for bucket, lasts := range map[string]func([]byte) time.Time{schemas.BucketPolicies: nil, schemas.BucketOverrides: schemas.OverrideExpiry} {
		entries, err := natskit.StoredEntries(ctx, js, bucket, ">")
		if err != nil {
			return n, err
		}
		keys := map[string]bool{}
		for _, e := range entries {
			keys[e.Key()] = true
		}
		was, is := &seal.Register{Trust: trust, Bucket: bucket, Lasts: lasts}, &seal.Register{Trust: trustIn(by), Bucket: bucket}
		was.Take(entries, true)
		is.Take(entries, true)
		for key := range keys {
			content, ok := was.Content(key)
			if now, _ := is.Content(key); !ok || bytes.Equal(now, content) {
				continue
			}
			var ttl time.Duration
			if lasts != nil {
				ttl = max(time.Until(lasts(content)), time.Second)
			}
			if _, err := Store(ctx, js, by, bucket, key, content, ttl); err != nil {
				return n, err
			}
			n++
		}
	}
	return n, nil
}

// maxTries bounds the attempts to make room for a record.
const maxTries = 20

// full reports whether a bucket, or the history of a key, takes no more records.
func full(err error) bool {
	const storeFailed jetstream.ErrorCode = 10077
	refused, ok := errors.AsType[*jetstream.APIError](err)
	return ok && refused.ErrorCode == storeFailed
}

// makeRoom deletes the older half of a key's history, and all bad records of the bucket.
func makeRoom(ctx context.Context, js jetstream.JetStream, trust seal.Trust, bucket, key string) error {
	stream, err := js.Stream(ctx, natskit.BucketStream(bucket))
	if err != nil {
		return fmt.Errorf("open bucket %s: %w", bucket, err)
	}
	var good, bad []uint64
	for msg, err := range natskit.Messages(ctx, js, bucket, ">") {
		if err != nil {
			return err
		}
		of := strings.TrimPrefix(msg.Subject, "$KV."+bucket+".")
		_, err := trust.Open(bucket, of, msg.Data)
		switch {
		case trust.Checks() && (err != nil || msg.Deletes()):
			bad = append(bad, msg.Sequence)
		case of == key:
			good = append(good, msg.Sequence)
		}
	}
	for _, sequence := range append(bad, good[:len(good)/2]...) {
		if err := stream.DeleteMsg(ctx, sequence); err != nil {
			return fmt.Errorf("make room in bucket %s: %w", bucket, err)
		}
	}
	return nil
}

// trustIn returns the trust in a single signer.
func trustIn(by *seal.Signer) seal.Trust {
	if by == nil {
		return seal.Trust{}
	}
	trust, _ := seal.NewTrust(by.Public()) // a signer's key is valid
	return trust
}

// callerHashKey is the size of the caller hash key in bytes.
const callerHashKey = 32

// EnsureCallerHashKey stores the key for caller hashes, unless the last stored record is
// good: the last good key again, or a new one. It reports whether it stored one.
func EnsureCallerHashKey(ctx context.Context, js jetstream.JetStream, by *seal.Signer) (stored bool, err error) {
	r := &seal.Register{Trust: trustIn(by), Bucket: schemas.BucketPolicies, Check: func(_ string, content []byte) error {
		if len(content) != callerHashKey {
			return fmt.Errorf("it has %d bytes, not %d", len(content), callerHashKey)
		}
		return nil
	}}
	entries, err := natskit.StoredEntries(ctx, js, r.Bucket, schemas.KeyCallerHash)
	if err != nil {
		return false, err
	}
	r.Take(entries, true)
	key, ok := r.Content(schemas.KeyCallerHash)
	if ok && len(r.Faults()) == 0 {
		return false, nil
	}
	if !ok {
		key = make([]byte, callerHashKey)
		_, _ = rand.Read(key) // never fails (crypto/rand)
	}
	_, err = Store(ctx, js, by, schemas.BucketPolicies, schemas.KeyCallerHash, key, 0)
	return err == nil, err
}
