package gateway

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/cenkalti/backoff/v5"
	"github.com/nats-io/nats.go/jetstream"
	"golang.org/x/sync/errgroup"

	"github.com/unloop/unloop/gateway/internal/identity"
	"github.com/unloop/unloop/schemas"
)

// startGrace is how long a gateway waits for its first contact with the
// cluster before it calls itself ready without: it can forward all the same.
const startGrace = 2 * time.Second

// prepare fetches what all gateways of the cluster share, follows it until the
// context ends, and says when the gateway is ready.
func (g *Gateway) prepare(ctx context.Context) error {
	grace := time.AfterFunc(startGrace, func() {
		if g.ready.Err() != nil && ctx.Err() == nil {
			g.log.Warn("no contact with the cluster yet; requests are not checked")
			g.ready.Set(nil)
		}
	})
	defer grace.Stop()
	var wanted sync.WaitGroup
	arrived := func() func() { wanted.Add(1); return sync.OnceFunc(wanted.Done) }
	bundle, overrides, key := arrived(), arrived(), arrived()
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { defer bundle(); return g.followPushed(ctx, bundle) })
	group.Go(func() error { defer overrides(); return g.followOverrides(ctx, overrides) })
	group.Go(func() error { defer key(); return g.followHashKey(ctx, key) })
	group.Go(func() error {
		wanted.Wait()
		if ctx.Err() == nil {
			grace.Stop()
			g.log.Info("serving", "listen", g.Addr(), "policies", g.bundles.Rules().Version())
			g.ready.Set(nil)
		}
		return nil
	})
	return group.Wait()
}

// followHashKey keeps the key that callers are hashed with: the configured one,
// or the cluster's own, which the first gateway makes. Until there is one,
// requests can't be told apart, and pass unchecked.
func (g *Gateway) followHashKey(ctx context.Context, loaded func()) error {
	key, err := g.cfg.hashKey()
	if err != nil {
		return err
	}
	if key != nil {
		g.hasher.Store(identity.NewHasher(*key))
		loaded()
		return nil
	}
	return g.followBucket(ctx, schemas.BucketPolicies, schemas.KeyCallerHash, &sharedKey{g: g, ctx: ctx, loaded: loaded}, func() {})
}

// sharedKey follows the cluster's key.
type sharedKey struct {
	g      *Gateway
	ctx    context.Context // that of the follower
	loaded func()
	// key is the one in use; nil until there is one.
	key *[identity.KeySize]byte
}

// errBadKey says that the bucket's key is none; hashing with another one would
// only hide it.
var errBadKey = errors.New("stored caller hash key has a wrong length")

func (k *sharedKey) reset(entries []jetstream.KeyValueEntry) {
	if len(entries) > 0 {
		k.update(entries[len(entries)-1])
		return
	}
	k.create()
}

func (k *sharedKey) update(entry jetstream.KeyValueEntry) {
	if entry.Operation() != jetstream.KeyValuePut {
		k.key = nil // an operator wants another one
		k.create()
		return
	}
	if len(entry.Value()) != identity.KeySize {
		k.g.log.Error("caller hash key not used", "error", fmt.Errorf("%w: %d bytes in %s %s", errBadKey, len(entry.Value()), schemas.BucketPolicies, schemas.KeyCallerHash))
		return
	}
	key := [identity.KeySize]byte(entry.Value())
	if k.key != nil && *k.key != key {
		k.g.log.Warn("the cluster hashes callers with another key now: its state was lost")
	}
	if k.key == nil || *k.key != key {
		k.key = &key
		k.g.hasher.Store(identity.NewHasher(key))
	}
	k.loaded()
}

// create stores the key in use, or a new one, unless another gateway does so
// first; either way the follower hears of what is stored then.
func (k *sharedKey) create() {
	key := k.key
	if key == nil {
		key = new([identity.KeySize]byte)
		_, _ = rand.Read(key[:]) // never fails (crypto/rand)
	}
	wait := backoff.NewExponentialBackOff()
	wait.MaxInterval = time.Second
	_, err := backoff.Retry(k.ctx, func() (struct{}, error) { return struct{}{}, createKey(k.ctx, k.g.deps.NATS.JetStream(), key[:]) },
		backoff.WithBackOff(wait), backoff.WithMaxElapsedTime(keyPatience))
	if err != nil && k.ctx.Err() == nil {
		k.g.log.Warn("caller hash key was not stored", "error", err)
	}
}

// keyPatience bounds how long storing a key is tried before the bucket is looked
// at again.
const keyPatience = 10 * time.Second

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
