package cluster

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"time"

	"github.com/cenkalti/backoff/v5"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/unloop/unloop/gateway/internal/memory/identity"
	"github.com/unloop/unloop/schemas"
	"github.com/unloop/unloop/schemas/kit/natskit"
	"github.com/unloop/unloop/schemas/kit/seal"
)

// sharedKey follows the cluster's own key. If records need a seal, an operator creates the
// key; otherwise the first gateway does.
type sharedKey struct {
	*Shared
	nats   *natskit.Conn
	stored *seal.Register
	// current is the key in use; nil until there is one.
	current *[identity.KeySize]byte
}

// errBadKey says that a stored key has a wrong length.
var errBadKey = errors.New("caller hash key has a wrong length")

// update uses the stored key, and reports whether there is a key to hash with. If no valid
// key is stored, the gateway keeps the one that it has, or creates one: requests are checked
// in any case.
func (k *sharedKey) update(ctx context.Context, entries []jetstream.KeyValueEntry, all bool) bool {
	k.take(kindKey, k.stored, entries, all)
	value, good := k.stored.Content(schemas.KeyCallerHash)
	if good {
		k.use([identity.KeySize]byte(value), false)
	}
	if k.trust.Checks() {
		if k.current == nil {
			k.use(newKey(), true)
		}
		return true
	}
	var last jetstream.KeyValueEntry
	if len(entries) > 0 {
		last = entries[len(entries)-1]
	}
	if good && k.stored.Faults()[schemas.KeyCallerHash] == nil {
		return true
	}
	if last != nil && last.Operation() != jetstream.KeyValuePut {
		k.current = nil // an operator deleted it
	}
	k.create(ctx, last)
	return false
}

// use sets the key. own says that no other gateway has it.
func (k *sharedKey) use(key [identity.KeySize]byte, own bool) {
	k.alone.Store(own)
	if k.current != nil && *k.current == key {
		return
	}
	if k.current != nil {
		k.log.Warn("caller hash key changed: earlier counts will not be found")
	}
	k.current = &key
	k.hasher.Store(identity.NewHasher(key))
}

func newKey() (key [identity.KeySize]byte) {
	_, _ = rand.Read(key[:]) // never fails (crypto/rand)
	return key
}

// createTimeout bounds the attempts to store a key before the bucket is read again.
const createTimeout = 10 * time.Second

// create stores the key in use, or a new one, in place of the last entry, unless another
// gateway does so first. In either case, the follower then receives the stored key.
func (k *sharedKey) create(ctx context.Context, last jetstream.KeyValueEntry) {
	key := newKey()
	if k.current != nil {
		key = *k.current
	}
	wait := backoff.NewExponentialBackOff()
	wait.MaxInterval = time.Second
	_, err := backoff.Retry(ctx, func() (struct{}, error) { return struct{}{}, createKey(ctx, k.nats.JetStream(), key[:], last) },
		backoff.WithBackOff(wait), backoff.WithMaxElapsedTime(createTimeout))
	if err != nil && ctx.Err() == nil {
		k.log.Warn("caller hash key was not stored", "error", err)
	}
}

func createKey(ctx context.Context, js jetstream.JetStream, key []byte, last jetstream.KeyValueEntry) error {
	kv, err := js.KeyValue(ctx, schemas.BucketPolicies)
	if err != nil {
		return fmt.Errorf("open bucket %s: %w", schemas.BucketPolicies, err)
	}
	if last != nil && last.Operation() == jetstream.KeyValuePut {
		_, err = kv.Update(ctx, schemas.KeyCallerHash, key, last.Revision())
	} else {
		_, err = kv.Create(ctx, schemas.KeyCallerHash, key)
	}
	if err == nil || errors.Is(err, jetstream.ErrKeyExists) {
		return nil
	}
	return fmt.Errorf("make caller hash key: %w", errors.Join(err, makeRoom(ctx, js)))
}

// makeRoom deletes earlier revisions of the key, because a full history accepts no more.
func makeRoom(ctx context.Context, js jetstream.JetStream) error {
	stream, err := js.Stream(ctx, natskit.BucketStream(schemas.BucketPolicies))
	if err != nil {
		return fmt.Errorf("open bucket %s: %w", schemas.BucketPolicies, err)
	}
	return stream.Purge(ctx, jetstream.WithPurgeSubject("$KV."+schemas.BucketPolicies+"."+schemas.KeyCallerHash), jetstream.WithPurgeKeep(1))
}
