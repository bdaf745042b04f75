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
	"github.com/unloop/unloop/schemas/kit/natskit"
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
	group.Go(func() error { defer key(); return g.fetchHashKey(ctx) })
	group.Go(func() error {
		wanted.Wait()
		if ctx.Err() == nil {
			grace.Stop()
			g.log.Info("serving", "listen", g.Addr(), "policies", g.bundles.inForce().Version())
			g.ready.Set(nil)
		}
		return nil
	})
	return group.Wait()
}

// fetchHashKey sets the key that callers are hashed with: the configured one,
// or the cluster's own, which the first gateway makes. Until then requests
// can't be told apart, and pass unchecked.
func (g *Gateway) fetchHashKey(ctx context.Context) error {
	key, err := g.cfg.hashKey()
	if err != nil {
		return err
	}
	if key == nil {
		if key, err = g.sharedHashKey(ctx); err != nil {
			return err
		}
	}
	g.hasher.Store(identity.NewHasher(*key))
	return nil
}

func (g *Gateway) sharedHashKey(ctx context.Context) (*[identity.KeySize]byte, error) {
	js, err := jetstream.New(g.deps.NATS)
	if err != nil {
		return nil, fmt.Errorf("open JetStream: %w", err)
	}
	if err := natskit.EnsureStreams(ctx, js, g.deps.Layout, g.log); err != nil {
		return nil, err
	}
	wait := backoff.NewExponentialBackOff()
	wait.MaxInterval = 2 * time.Second
	return backoff.Retry(ctx, func() (*[identity.KeySize]byte, error) { return createOrReadKey(ctx, js) },
		backoff.WithBackOff(wait), backoff.WithMaxElapsedTime(0))
}

// errBadKey says that the bucket's key is none; hashing with another one would
// only hide it.
var errBadKey = errors.New("stored caller hash key has a wrong length")

func createOrReadKey(ctx context.Context, js jetstream.JetStream) (*[identity.KeySize]byte, error) {
	kv, err := js.KeyValue(ctx, schemas.BucketPolicies)
	if err != nil {
		return nil, fmt.Errorf("open bucket %s: %w", schemas.BucketPolicies, err)
	}
	var key [identity.KeySize]byte
	_, _ = rand.Read(key[:]) // never fails (crypto/rand)
	_, err = kv.Create(ctx, schemas.KeyCallerHash, key[:])
	if err == nil {
		return &key, nil
	}
	if !errors.Is(err, jetstream.ErrKeyExists) {
		return nil, fmt.Errorf("make caller hash key: %w", err)
	}
	entry, err := kv.Get(ctx, schemas.KeyCallerHash)
	if err != nil {
		return nil, fmt.Errorf("read caller hash key: %w", err)
	}
	if len(entry.Value()) != identity.KeySize {
		return nil, backoff.Permanent(fmt.Errorf("%w: %d bytes in %s %s", errBadKey, len(entry.Value()), schemas.BucketPolicies, schemas.KeyCallerHash))
	}
	return (*[identity.KeySize]byte)(entry.Value()), nil
}
