// Package cluster keeps up with what the gateways of a cluster share: the key that
// callers are hashed with, the policy bundle that operators push, and the blocks
// and exemptions that they set.
//
// It does not know what a request is, or what a bundle says.
package cluster

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"golang.org/x/sync/errgroup"

	"github.com/unloop/unloop/gateway/internal/identity"
	"github.com/unloop/unloop/gateway/internal/override"
	"github.com/unloop/unloop/schemas"
	"github.com/unloop/unloop/schemas/kit/natskit"
)

// Shared is what is known of the cluster now. Many goroutines may read it while one
// follows the cluster.
type Shared struct {
	log *slog.Logger
	// key is the configured key; nil if the cluster makes its own.
	key       *[identity.KeySize]byte
	hasher    atomic.Pointer[identity.Hasher]
	overrides atomic.Pointer[override.Entries]
	loaded    atomic.Pointer[time.Time]
}

// New returns what is known before any contact with the cluster. key is the key that
// callers are hashed with; nil for the cluster's own.
func New(key *[identity.KeySize]byte, log *slog.Logger) *Shared {
	s := &Shared{log: log, key: key}
	if key != nil {
		s.hasher.Store(identity.NewHasher(*key))
	}
	s.overrides.Store(&override.Entries{})
	return s
}

// Hasher returns what hashes callers; nil until the key is known. Requests can't be
// told apart without it.
func (s *Shared) Hasher() *identity.Hasher { return s.hasher.Load() }

// Overrides returns the blocks and exemptions that operators set. They do not change.
func (s *Shared) Overrides() override.Entries { return *s.overrides.Load() }

// Loaded returns when all that is shared was read for the first time; false before.
func (s *Shared) Loaded() (at time.Time, ok bool) {
	if first := s.loaded.Load(); first != nil {
		return *first, true
	}
	return time.Time{}, false
}

// Follow keeps up with the cluster until the context ends, whatever happens to the
// connection. bundle is called with each pushed bundle, and with nil while there is
// none; loaded is called once, when all that is shared is known.
func (s *Shared) Follow(ctx context.Context, nc *natskit.Conn, layout natskit.Layout, bundle func([]byte), loaded func()) error {
	f := &natskit.Follower{Conn: nc, Layout: layout, Log: s.log}
	var missing sync.WaitGroup
	arrives := func() func() { missing.Add(1); return sync.OnceFunc(missing.Done) }
	gotBundle, gotOverrides, gotKey := arrives(), arrives(), arrives()
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error {
		defer gotBundle()
		return f.Follow(ctx, schemas.BucketPolicies, schemas.KeyBundle, func(entries []jetstream.KeyValueEntry, _ bool) {
			value, _ := newest(entries)
			bundle(value)
			gotBundle()
		})
	})
	group.Go(func() error {
		defer gotOverrides()
		return f.Follow(ctx, schemas.BucketOverrides, ">", func(entries []jetstream.KeyValueEntry, all bool) {
			s.override(entries, all)
			gotOverrides()
		})
	})
	group.Go(func() error {
		defer gotKey()
		if s.key != nil {
			return nil
		}
		k := &sharedKey{Shared: s, nats: nc, loaded: gotKey}
		return f.Follow(ctx, schemas.BucketPolicies, schemas.KeyCallerHash, func(entries []jetstream.KeyValueEntry, _ bool) { k.update(ctx, entries) })
	})
	group.Go(func() error {
		missing.Wait()
		if ctx.Err() == nil {
			now := time.Now()
			s.loaded.Store(&now)
			loaded()
		}
		return nil
	})
	return group.Wait()
}

// newest returns the value of a key by its entries, oldest first; false if it has none.
func newest(entries []jetstream.KeyValueEntry) ([]byte, bool) {
	if len(entries) == 0 || entries[len(entries)-1].Operation() != jetstream.KeyValuePut {
		return nil, false
	}
	return entries[len(entries)-1].Value(), true
}

// override takes over overrides that were set or deleted. all says that they replace
// those that were known.
func (s *Shared) override(entries []jetstream.KeyValueEntry, all bool) {
	current := override.Entries{}
	if !all {
		current = maps.Clone(s.Overrides())
	}
	for _, entry := range entries {
		if entry.Operation() != jetstream.KeyValuePut {
			delete(current, entry.Key())
		} else if err := current.Put(entry.Key(), entry.Value()); err != nil {
			s.log.Error("override not used", "key", entry.Key(), "error", err)
		}
	}
	s.overrides.Store(&current)
}

// Read reads once what the cluster shares, and returns the pushed bundle; nil if
// there is none. Unlike Follow, it changes nothing in the cluster.
func (s *Shared) Read(ctx context.Context, js jetstream.JetStream) (bundle []byte, err error) {
	kv, err := js.KeyValue(ctx, schemas.BucketPolicies)
	if err != nil {
		return nil, fmt.Errorf("open bucket %s: %w", schemas.BucketPolicies, err)
	}
	if s.key == nil {
		entry, err := kv.Get(ctx, schemas.KeyCallerHash)
		if err != nil {
			return nil, fmt.Errorf("read caller hash key: %w", err)
		}
		if len(entry.Value()) != identity.KeySize {
			return nil, fmt.Errorf("read caller hash key: %w", errBadKey)
		}
		s.hasher.Store(identity.NewHasher([identity.KeySize]byte(entry.Value())))
	}
	if entry, err := kv.Get(ctx, schemas.KeyBundle); err == nil {
		bundle = entry.Value()
	}
	var entries []jetstream.KeyValueEntry
	for entry, err := range natskit.Entries(ctx, js, schemas.BucketOverrides, ">") {
		if err != nil {
			return bundle, err
		}
		entries = append(entries, entry)
	}
	s.override(entries, true)
	return bundle, nil
}
