package vectors

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/unloop/unloop/schemas"
	"github.com/unloop/unloop/schemas/kit/ledger"
	"github.com/unloop/unloop/schemas/kit/natskit"
)

// records is what keeps the histories: a ledger.
type records interface {
	Apply(ctx context.Context, key string, step ledger.Step[history]) error
	Read(ctx context.Context, key string) (history, error)
}

// KV keeps a scope's history as a record in a JetStream key-value bucket. Each write adds
// what is new, by compare-and-set.
type KV struct {
	records records
	bucket  *bucket // nil if the records are in this process alone
	now     func() time.Time
	// room is how many bytes a part of a record may have.
	room func() int
}

// usualPayload is the largest message of a NATS server that says nothing else,
// and headers what a record's headers take of it at most.
const (
	usualPayload = 1 << 20
	headers      = 4 << 10
)

func usualRoom() int { return usualPayload - headers }

// roomOf is what the server of a connection has room for.
func roomOf(nc *natskit.Conn) func() int {
	return func() int {
		if most := nc.NATS().MaxPayload(); most > 2*headers {
			return int(most) - headers
		}
		return usualRoom()
	}
}

// NewKV returns a store on a connection, which need not be up yet. The bucket
// is made when it is first missed.
func NewKV(nc *natskit.Conn, layout natskit.Layout, now func() time.Time, reg prometheus.Registerer) *KV {
	return &KV{
		records: ledger.New[history](nc, schemas.BucketVectors, reg),
		bucket:  &bucket{nc: nc, layout: layout}, now: now, room: roomOf(nc),
	}
}

// NewMemory returns a store with its histories in this process, for replays.
func NewMemory(now func() time.Time) *KV {
	return &KV{records: ledger.NewMemory[history](now), now: now, room: usualRoom}
}

// Kind implements Store.
func (*KV) Kind() string { return "kv" }

// NeedsVectors implements Store.
func (*KV) NeedsVectors() bool { return false }

// Close implements Store; the connection is the caller's.
func (*KV) Close() error { return nil }

// Ping implements Store.
func (s *KV) Ping(ctx context.Context) error {
	if s.bucket == nil {
		return nil
	}
	return unavailable("ask for bucket", s.bucket.find(ctx))
}

// bucket is the stream behind the histories.
type bucket struct {
	nc     *natskit.Conn
	layout natskit.Layout
}

// bucketTimeout bounds how long is waited for a server that hangs.
const bucketTimeout = 2 * time.Second

// find looks for the bucket and makes it if it is missing.
func (b *bucket) find(ctx context.Context) error {
	if err := b.nc.Err(); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, bucketTimeout)
	defer cancel()
	return b.nc.EnsureVectors(ctx, b.layout)
}

func unavailable(what string, err error) error {
	if err == nil || errors.Is(err, ErrInvalid) {
		return err
	}
	return fmt.Errorf("%w: %s: %w", ErrUnavailable, what, err)
}

// Compare implements Store.
func (s *KV) Compare(ctx context.Context, r Request) (History, error) {
	if err := r.check(); err != nil {
		return History{}, err
	}
	var past History
	err := s.withBucket(ctx, func() (err error) {
		past, err = s.compare(ctx, r)
		return err
	})
	return past, unavailable("compare with history", err)
}

func (s *KV) compare(ctx context.Context, r Request) (past History, err error) {
	step := func(h history) (history, time.Duration) {
		now := s.now()
		kept, replaced := h.remembered(r, now)
		if past = h.compared(r, kept, replaced, now); r.Peek || r.Suffices != nil && !r.Suffices(past.Past) {
			return h, 0
		}
		next := h.before(r, kept, now, s.room())
		return next, next.keepFor(now)
	}
	if r.Peek {
		h, err := s.records.Read(ctx, r.key())
		step(h)
		return past, err
	}
	err = s.records.Apply(ctx, r.key(), step)
	return past, err
}

// Expect implements Store.
func (s *KV) Expect(ctx context.Context, r Request) error {
	err := r.check()
	if err == nil {
		err = s.withBucket(ctx, func() error { return s.expect(ctx, r) })
	}
	return unavailable("expect a streak", err)
}

func (s *KV) expect(ctx context.Context, r Request) error {
	return s.records.Apply(ctx, r.key(), func(h history) (history, time.Duration) { return h.expecting(s.now(), r.TTL) })
}

// withBucket runs an operation, and again where the bucket was missing and is made.
func (s *KV) withBucket(ctx context.Context, operation func() error) error {
	err := operation()
	if errors.Is(err, ledger.ErrNoBucket) {
		if err = s.bucket.find(ctx); err == nil {
			err = operation()
		}
	}
	return err
}

// key returns the key of a request's record.
func (r Request) key() string { return schemas.VectorKey(r.Scope.Kind, r.scopeHash()) }
