// Package cluster follows what the gateways of a cluster share: the key for the hashes of
// callers, the policy bundle that operators push, and the blocks and exemptions that they
// set. If operators seal their records, it ignores those of others.
//
// It does not know what a request is, or what a bundle contains.
package cluster

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"maps"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"golang.org/x/sync/errgroup"

	"github.com/unloop/unloop/gateway/internal/memory/identity"
	"github.com/unloop/unloop/gateway/internal/rules/override"
	"github.com/unloop/unloop/schemas"
	"github.com/unloop/unloop/schemas/kit/natskit"
	"github.com/unloop/unloop/schemas/kit/seal"
)

// Shared is the shared state of the cluster. It may be read concurrently while one goroutine
// calls Follow.
type Shared struct {
	log   *slog.Logger
	trust seal.Trust
	// key is the configured key; nil to use the cluster's.
	key       *[identity.KeySize]byte
	hasher    atomic.Pointer[identity.Hasher]
	overrides atomic.Pointer[override.Entries]
	loaded    atomic.Pointer[time.Time]
	faults    faults
	now       func() time.Time
	// alone says that the gateway hashes with a key that no other gateway has.
	alone atomic.Bool
}

// New returns the state before any contact with the cluster. key is the caller hash key; nil
// for the cluster's own. trust decides which records are valid; now is the clock for the
// expiry of overrides.
func New(key *[identity.KeySize]byte, trust seal.Trust, now func() time.Time, log *slog.Logger) *Shared {
	s := &Shared{log: log, key: key, trust: trust, now: now}
	if key != nil {
		s.hasher.Store(identity.NewHasher(*key))
	}
	s.overrides.Store(&override.Entries{})
	return s
}

// Hasher returns the hasher of callers; nil until the key is known. Without it, callers can't
// be distinguished.
func (s *Shared) Hasher() *identity.Hasher { return s.hasher.Load() }

// Overrides returns the blocks and exemptions that operators set. The map must not be
// changed.
func (s *Shared) Overrides() override.Entries { return *s.overrides.Load() }

// Loaded returns when all shared state was read for the first time; false before.
func (s *Shared) Loaded() (at time.Time, ok bool) {
	if first := s.loaded.Load(); first != nil {
		return *first, true
	}
	return time.Time{}, false
}

// Follow follows the cluster until the context ends, also across lost connections. It calls
// bundle with each pushed bundle, and with nil while there is none, and loaded once, when all
// shared state is known.
func (s *Shared) Follow(ctx context.Context, nc *natskit.Conn, layout natskit.Layout, bundle func([]byte), loaded func()) error {
	f := &natskit.Follower{Conn: nc, Layout: layout, Log: s.log}
	var missing sync.WaitGroup
	arrives := func() func() { missing.Add(1); return sync.OnceFunc(missing.Done) }
	group, ctx := errgroup.WithContext(ctx)
	follow := func(r *seal.Register, keys string, apply func(entries []jetstream.KeyValueEntry, all bool) bool) {
		got := arrives()
		group.Go(func() error {
			defer got()
			through := func(entries []jetstream.KeyValueEntry, all bool) {
				if apply(entries, all) {
					got()
				}
			}
			if s.trust.Checks() { // the last record of a key may not be the last good one
				return f.Track(ctx, r.Bucket, keys, through)
			}
			return f.Follow(ctx, r.Bucket, keys, through)
		})
	}
	pushed := s.bundles()
	follow(pushed, schemas.KeyBundle, func(entries []jetstream.KeyValueEntry, all bool) bool {
		if changed := s.take(kindBundle, pushed, entries, all); len(changed) > 0 || all {
			content, _ := pushed.Content(schemas.KeyBundle)
			bundle(content)
		}
		return true
	})
	set := s.set()
	follow(set, ">", func(entries []jetstream.KeyValueEntry, all bool) bool {
		s.override(set, s.take(kindOverride, set, entries, all))
		return true
	})
	if s.key == nil {
		k := &sharedKey{Shared: s, nats: nc, stored: s.keys()}
		follow(k.stored, schemas.KeyCallerHash, func(entries []jetstream.KeyValueEntry, all bool) bool { return k.update(ctx, entries, all) })
	}
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

// bundles, set and keys return the registers of bundles, overrides and keys.
func (s *Shared) bundles() *seal.Register {
	return &seal.Register{Trust: s.trust, Bucket: schemas.BucketPolicies}
}

func (s *Shared) set() *seal.Register {
	return &seal.Register{
		Trust: s.trust, Bucket: schemas.BucketOverrides,
		Check: func(key string, content []byte) error {
			_, err := override.Read(key, content)
			return err
		},
		Lasts: schemas.OverrideExpiry, Now: s.now,
	}
}

func (s *Shared) keys() *seal.Register {
	return &seal.Register{Trust: s.trust, Bucket: schemas.BucketPolicies, Check: func(_ string, content []byte) error {
		if len(content) != identity.KeySize {
			return fmt.Errorf("%w: %d bytes", errBadKey, len(content))
		}
		return nil
	}}
}

// take takes entries into the register of a kind, and logs those that are refused.
func (s *Shared) take(kind string, r *seal.Register, entries []jetstream.KeyValueEntry, all bool) (changed []string) {
	changed = r.Take(entries, all)
	for key, err := range s.faults.replace(kind, r.Faults()) {
		s.log.Error("record not used; the last good one stays in force", "bucket", r.Bucket, "key", key, "error", err)
	}
	return changed
}

// override applies changed overrides.
func (s *Shared) override(set *seal.Register, changed []string) {
	current := maps.Clone(s.Overrides())
	for _, key := range changed {
		delete(current, key)
		if content, ok := set.Content(key); ok {
			if o, err := override.Read(key, content); err == nil { // always, after Check
				current[key] = o
			}
		}
	}
	s.overrides.Store(&current)
}

// Read reads the shared state once, and returns the pushed bundle; nil if there is none.
// Unlike Follow, it changes nothing in the cluster.
func (s *Shared) Read(ctx context.Context, js jetstream.JetStream) (bundle []byte, err error) {
	if s.key == nil {
		keys := s.keys()
		if _, err := s.readInto(ctx, js, kindKey, keys, schemas.KeyCallerHash); err != nil {
			return nil, err
		}
		key, ok := keys.Content(schemas.KeyCallerHash)
		if !ok {
			return nil, fmt.Errorf("read caller hash key: %w", cmp.Or(keys.Faults()[schemas.KeyCallerHash], error(jetstream.ErrKeyNotFound)))
		}
		s.hasher.Store(identity.NewHasher([identity.KeySize]byte(key)))
	}
	pushed, set := s.bundles(), s.set()
	if _, err := s.readInto(ctx, js, kindBundle, pushed, schemas.KeyBundle); err != nil {
		return nil, err
	}
	bundle, _ = pushed.Content(schemas.KeyBundle)
	changed, err := s.readInto(ctx, js, kindOverride, set, ">")
	s.override(set, changed)
	return bundle, err
}

// readInto takes the stored entries into a register.
func (s *Shared) readInto(ctx context.Context, js jetstream.JetStream, kind string, r *seal.Register, keys string) (changed []string, err error) {
	entries, err := natskit.StoredEntries(ctx, js, r.Bucket, keys)
	if err != nil {
		return nil, err
	}
	return s.take(kind, r, entries, true), nil
}
