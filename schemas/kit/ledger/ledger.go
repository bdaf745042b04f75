// Package ledger keeps one small record per key in a JetStream key-value bucket. Any number
// of processes may write at once, and no update is lost.
//
// An update is a pure step from a record to the next. Steps on a key that arrive during a
// write are folded into the next write. A write is a compare-and-set against the revision
// that this process saw last; it creates the record if it saw none. Only a conflict makes it
// read, from the stream's leader. So a new key costs one round trip, and a step is applied at
// most once, however the processes interleave.
//
// A record may be stored in parts (Parted), so that a write carries only the newest part.
//
// No goroutine waits for a write: its continuation runs when the acknowledgement arrives.
//
// A bucket may have partitions (package partition), whose number may grow at any time.
//
// The package does not know what the records mean.
package ledger

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/unloop/unloop/schemas/kit/natskit"
	"github.com/unloop/unloop/schemas/kit/partition"
)

const (
	// maxAttempts bounds the attempts at a write after conflicts.
	maxAttempts = 16
	// writeTimeout bounds one write or read when its server hangs.
	writeTimeout = time.Second
	// cachedBytes bounds the cached keys and stored forms: about 100,000 counters.
	cachedBytes = 20 << 20
)

// Errors of Apply. After any of them, the step was applied once or not at all.
var (
	// ErrUnavailable means that the bucket did not take the write.
	ErrUnavailable = errors.New("record store unavailable")
	// ErrNoBucket means that no server has the bucket. It comes with
	// ErrUnavailable.
	ErrNoBucket = errors.New("no such bucket")
	// ErrContended means that other processes won every attempt.
	ErrContended = errors.New("record contended")
)

// ElsewhereError means that another process has to apply the step. It was not applied.
type ElsewhereError struct{ Owner string }

// Error returns the name of the process.
func (e *ElsewhereError) Error() string { return "record belongs to " + e.Owner }

// Owners decides which process writes a contended key.
type Owners interface {
	// Contended is called when another process wrote a key between two writes of this one.
	Contended(bucket, key string)
	// Owner returns the other process that owns a key; "" for none.
	Owner(bucket, key string) string
}

// stay is the context key of Stay.
type stay struct{}

// Stay returns a context for steps that this process applies, whoever owns their keys.
func Stay(ctx context.Context) context.Context { return context.WithValue(ctx, stay{}, true) }

// Record is what a ledger stores.
type Record[S any] interface {
	// Append writes the record's stored form after b.
	Append(b []byte) []byte
	// Parse reads the stored form into a zero record. After an error the record starts
	// again.
	Parse(stored []byte) error
	*S
}

// Step returns the record that follows another one, and its TTL in whole seconds; 0 leaves
// the stored record unchanged. It may run more than once; the result of the last run is
// stored.
type Step[S any] func(S) (next S, ttl time.Duration)

// Ledger is a bucket of records.
type Ledger[S any, P Record[S]] struct {
	conn   *natskit.Conn
	inbox  *natskit.Inbox
	bucket string
	// spread is set if the bucket may have partitions, between which mover moves records.
	spread bool
	mover  partition.Mover
	parted bool
	options
	mu      sync.Mutex
	cells   map[string]*cell[S]
	cache   *cache[remembered[S]]
	began   time.Time
	metrics *metrics
}

// revision is a stored record.
type revision[S any] struct {
	record S
	// stored is its stored form, which is read-only. Only a packed ledger needs it.
	stored []byte
	version
}

// version identifies a revision.
type version struct {
	// place is the bucket that has it.
	place string
	seq   uint64
	// size of its stored form in bytes.
	size int
	// until is the end of its TTL, as a duration since the ledger began; 0 if not known.
	until time.Duration
	// at is when this process stored or read it.
	at time.Time
}

// remembered is a revision in the cache: its record, or its stored form.
type remembered[S any] struct {
	record *S
	stored []byte
	version
}

// pending is a step that waits for a write.
type pending[S any] struct {
	ctx  context.Context
	step Step[S]
	// behind reports, after the step, whether the caller does not wait for the write; nil if
	// it waits.
	behind func() bool
	done   func(error)
}

// Option changes what New makes.
type Option func(*options)

// options are the settings that options change; see there.
type options struct {
	confirm, packed bool
	owners          Owners           // nil if each process writes all keys
	trusted         func() time.Time // nil without WithTrust
}

// WithOwners makes steps on keys that belong to another process fail with an
// ElsewhereError, without being applied.
func WithOwners(owners Owners) Option { return func(o *options) { o.owners = owners } }

// WithConfirm makes a step that changes nothing first read the record from the stream's
// leader, even if it is cached: another process may have written. A step that changes the
// record finds that out when it writes.
func WithConfirm() Option { return func(o *options) { o.confirm = true } }

// WithPacked makes the ledger cache the stored forms of records, which take a fraction of the
// memory, and parse them when they are used again. It is for buckets with many records that
// are seldom reused; not for records in parts.
func WithPacked() Option { return func(o *options) { o.packed = true } }

// WithTrust makes StartBehind rely on records that this process stored or read at or after
// the time that trusted returns: until then, others may have written them.
func WithTrust(trusted func() time.Time) Option { return func(o *options) { o.trusted = trusted } }

// New returns the ledger of a bucket. It lives as long as the connection.
func New[S any, P Record[S]](nc *natskit.Conn, bucket string, reg prometheus.Registerer, opts ...Option) *Ledger[S, P] {
	var o options
	for _, opt := range opts {
		opt(&o)
	}
	inbox := natskit.NewInbox(nc, writeTimeout)
	return &Ledger[S, P]{
		conn: nc, inbox: inbox, bucket: bucket, options: o,
		spread: partition.Spread(bucket), mover: partition.Mover{Ask: inbox.Ask, API: nc.API, Record: nc.RecordSubject},
		parted: parts[S, P](new(S)) != nil, cells: map[string]*cell[S]{}, cache: newCache[remembered[S]](cachedBytes), began: time.Now(),
		metrics: newMetrics(reg, bucket),
	}
}

// StartBehind is Start that calls done before the step is stored, if behind returns true
// after the step, and the cached record can be trusted (WithTrust). The write follows at
// once. If it fails, or another process has written meanwhile, the step is lost.
func (l *Ledger[S, P]) StartBehind(ctx context.Context, key string, step Step[S], behind func() bool, done func(error)) {
	if c := l.enqueue(key, pending[S]{ctx: ctx, step: step, behind: behind, done: done}); c != nil {
		l.try(c)
	}
}

// Start applies a step to a key's record and calls done when it is stored. A
// step whose context ends before its write began is dropped with the context's
// error. done is called once, perhaps before Start returns; while it runs, no
// other acknowledgement is taken, so it must not wait for one.
func (l *Ledger[S, P]) Start(ctx context.Context, key string, step Step[S], done func(error)) {
	if c := l.enqueue(key, pending[S]{ctx: ctx, step: step, done: done}); c != nil {
		l.try(c)
	}
}

// Apply is Start that waits.
func (l *Ledger[S, P]) Apply(ctx context.Context, key string, step Step[S]) error {
	done := make(chan error, 1)
	l.Start(ctx, key, step, func(err error) { done <- err })
	return <-done
}
