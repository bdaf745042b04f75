// Package ledger keeps one small record a key in a JetStream key-value bucket,
// written by any number of processes at once, and loses no update.
//
// An update is a pure step from a record to the next. Steps on one key that
// arrive while a write is on its way are folded into the next write. A write
// is a compare-and-set against the revision that this process saw last:
// creating if it never saw one. Only a conflict makes it read, from the
// stream's leader. So a new key costs one round trip, and a step is applied at
// most once, however the processes interleave.
//
// It knows nothing of what the records mean.
package ledger

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/maypok86/otter/v2"
	"github.com/nats-io/nats.go"
	"github.com/prometheus/client_golang/prometheus"
)

const (
	// maxAttempts bounds how often a write is tried against conflicts.
	maxAttempts = 16
	// writeTimeout bounds one write or read when its server hangs.
	writeTimeout = time.Second
	// cachedRecords bounds the records remembered with their revisions.
	cachedRecords = 100_000
)

// Errors of Apply. After either, the step was applied once or not at all.
var (
	// ErrUnavailable says that the bucket did not take the write.
	ErrUnavailable = errors.New("counter store unavailable")
	// ErrContended says that other processes won every attempt.
	ErrContended = errors.New("counter contended")
)

// Record is what a ledger stores.
type Record[S any] interface {
	// Append writes the record's JSON after b.
	Append(b []byte) []byte
	*S
}

// Step takes a record to the next one and says how long it is to be kept: a
// TTL in whole seconds; 0 leaves the stored record as it is. It may run more
// than once; the last run is the one that was stored.
type Step[S any] func(S) (next S, ttl time.Duration)

// Ledger is a bucket of records.
type Ledger[S any, P Record[S]] struct {
	nc      *nats.Conn
	bucket  string
	mu      sync.Mutex
	cells   map[string]*cell[S]
	cache   *otter.Cache[string, revision[S]]
	metrics *metrics
}

// revision is a record as some process stored it.
type revision[S any] struct {
	record S
	seq    uint64
}

// cell is a key with steps under way. It exists only while there are any.
type cell[S any] struct{ waiting []*pending[S] }

type pending[S any] struct {
	ctx  context.Context
	step Step[S]
	done chan error
}

// New returns the ledger of a bucket.
func New[S any, P Record[S]](nc *nats.Conn, bucket string, reg prometheus.Registerer) (*Ledger[S, P], error) {
	cache, err := otter.New(&otter.Options[string, revision[S]]{MaximumSize: cachedRecords})
	if err != nil {
		return nil, fmt.Errorf("make record cache: %w", err)
	}
	return &Ledger[S, P]{
		nc: nc, bucket: bucket, cells: map[string]*cell[S]{}, cache: cache,
		metrics: newMetrics(reg, bucket),
	}, nil
}

// Apply applies a step to a key's record and returns when it is stored. A step
// whose context ends before its write began is dropped with the context's
// error.
func (l *Ledger[S, P]) Apply(ctx context.Context, key string, step Step[S]) error {
	p := &pending[S]{ctx: ctx, step: step, done: make(chan error, 1)}
	if l.enqueue(key, p) {
		l.drain(key)
	}
	return <-p.done
}

// Read returns the stored record; the zero record if there is none.
func (l *Ledger[S, P]) Read(key string) (S, error) {
	rev, err := l.get(key)
	return rev.record, err
}

// enqueue says whether the caller is the one to write.
func (l *Ledger[S, P]) enqueue(key string, p *pending[S]) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if c, busy := l.cells[key]; busy {
		c.waiting = append(c.waiting, p)
		return false
	}
	l.cells[key] = &cell[S]{waiting: []*pending[S]{p}}
	return true
}

// take hands out what waits for a key, or closes its cell.
func (l *Ledger[S, P]) take(key string) []*pending[S] {
	l.mu.Lock()
	defer l.mu.Unlock()
	c := l.cells[key]
	batch := c.waiting
	c.waiting = nil
	if len(batch) == 0 {
		delete(l.cells, key)
	}
	return batch
}

// drain writes until nothing waits. The first batch holds the caller's own
// step; what came meanwhile goes to a goroutine, so that the caller can answer.
func (l *Ledger[S, P]) drain(key string) {
	l.write(key, l.take(key))
	more := l.take(key)
	if len(more) == 0 {
		return
	}
	go func() {
		for len(more) > 0 {
			l.write(key, more)
			more = l.take(key)
		}
	}()
}

// write stores a batch of steps as one record and tells each how it went.
func (l *Ledger[S, P]) write(key string, batch []*pending[S]) {
	seen, known := l.cache.GetIfPresent(key)
	for range maxAttempts {
		if batch = dropLate(batch); len(batch) == 0 {
			return
		}
		err := l.try(key, seen, known, batch)
		if !errors.Is(err, errConflict) {
			finish(batch, err)
			return
		}
		if seen, err = l.get(key); err != nil {
			finish(batch, err)
			return
		}
		known = true
	}
	finish(batch, ErrContended)
}

// try applies a batch to the record as this process saw it last and writes the
// result. It returns errConflict when the stored record must be read first.
func (l *Ledger[S, P]) try(key string, seen revision[S], known bool, batch []*pending[S]) error {
	next, ttl := fold(seen.record, batch)
	if ttl == 0 {
		if !known {
			return errConflict // nothing to change, unless there is a record that we never saw
		}
		return nil
	}
	seq, err := l.put(key, P(&next).Append(nil), seen.seq, ttl)
	if errors.Is(err, errConflict) {
		l.metrics.conflicts.Inc()
	}
	if err != nil {
		return err
	}
	l.metrics.writes.Inc()
	l.metrics.folded.Add(float64(len(batch) - 1))
	l.cache.Set(key, revision[S]{next, seq})
	return nil
}

// dropLate removes the steps whose requests nobody waits for any more.
func dropLate[S any](batch []*pending[S]) []*pending[S] {
	kept := batch[:0]
	for _, p := range batch {
		if err := p.ctx.Err(); err != nil {
			p.done <- err
			continue
		}
		kept = append(kept, p)
	}
	return kept
}

// fold applies the steps in turn. The last one that changes the record has
// seen all others, so its TTL holds for them too.
func fold[S any](record S, batch []*pending[S]) (S, time.Duration) {
	var keep time.Duration
	for _, p := range batch {
		if next, ttl := p.step(record); ttl > 0 {
			record, keep = next, ttl
		}
	}
	return record, keep
}

func finish[S any](batch []*pending[S], err error) {
	for _, p := range batch {
		p.done <- err
	}
}
