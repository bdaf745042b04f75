package cluster

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"time"

	"github.com/cenkalti/backoff/v5"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/unloop/unloop/gateway/internal/identity"
	"github.com/unloop/unloop/schemas"
	"github.com/unloop/unloop/schemas/kit/natskit"
)

// sharedKey follows the cluster's own key, which the first gateway makes.
type sharedKey struct {
	*Shared
	nats *natskit.Conn
	// loaded is called when there is a key.
	loaded func()
	// current is the key in use; nil until there is one.
	current *[identity.KeySize]byte
}

// errBadKey says that the stored key has a wrong length. It is not replaced: hashing
// with another key would only hide the fault.
var errBadKey = errors.New("stored caller hash key has a wrong length")

// update takes over the stored key. If there is none, it stores the key in use, so
// that a cluster that lost its state keeps its key; a key that an operator deleted
// is replaced by a new one.
func (k *sharedKey) update(ctx context.Context, entries []jetstream.KeyValueEntry) {
	value, stored := newest(entries)
	if !stored {
		if len(entries) > 0 {
			k.current = nil // an operator deleted it
		}
		k.create(ctx)
		return
	}
	if len(value) != identity.KeySize {
		k.log.Error("caller hash key not used", "error", fmt.Errorf("%w: %d bytes in %s %s", errBadKey, len(value), schemas.BucketPolicies, schemas.KeyCallerHash))
		return
	}
	if key := [identity.KeySize]byte(value); k.current == nil || *k.current != key {
		if k.current != nil {
			k.log.Warn("the cluster hashes callers with another key now: its state was lost")
		}
		k.current = &key
		k.hasher.Store(identity.NewHasher(key))
	}
	k.loaded()
}

// patience bounds how long storing a key is tried before the bucket is looked at
// again.
const patience = 10 * time.Second

// create stores the key in use, or a new one, unless another gateway does so first;
// either way the follower receives the key that is stored then.
func (k *sharedKey) create(ctx context.Context) {
	key := k.current
	if key == nil {
		key = new([identity.KeySize]byte)
		_, _ = rand.Read(key[:]) // never fails (crypto/rand)
	}
	wait := backoff.NewExponentialBackOff()
	wait.MaxInterval = time.Second
	_, err := backoff.Retry(ctx, func() (struct{}, error) { return struct{}{}, createKey(ctx, k.nats.JetStream(), key[:]) },
		backoff.WithBackOff(wait), backoff.WithMaxElapsedTime(patience))
	if err != nil && ctx.Err() == nil {
		k.log.Warn("caller hash key was not stored", "error", err)
	}
}

func createKey(ctx context.Context, js jetstream.JetStream, key []byte) error {
	kv, err := js.KeyValue(ctx, schemas.BucketPolicies)
	if err != nil {
		return fmt.Errorf("open bucket %s: %w", schemas.BucketPolicies, err)
	}
	if _, err = kv.Create(ctx, schemas.KeyCallerHash, key); err != nil && !errors.Is(err, jetstream.ErrKeyExists) {
		return fmt.Errorf("make caller hash key: %w", err)
	}
	return nil
}
