package ledger

import (
	"context"
	"sync"
	"time"
)

// Memory is a ledger in the memory of this process, with TTLs by a given clock. Steps run
// immediately.
type Memory[S any] struct {
	now     func() time.Time
	mu      sync.Mutex
	records map[string]kept[S]
	sweepAt int
}

type kept[S any] struct {
	record S
	until  time.Time
}

// firstSweep is the number of records at the first removal of expired ones. The next removal
// is at twice the number left.
const firstSweep = 4096

// NewMemory returns an empty ledger.
func NewMemory[S any](now func() time.Time) *Memory[S] {
	return &Memory[S]{now: now, records: map[string]kept[S]{}, sweepAt: firstSweep}
}

// Start applies a step to a key's record and calls done.
func (m *Memory[S]) Start(ctx context.Context, key string, step Step[S], done func(error)) {
	done(m.Apply(ctx, key, step))
}

// StartBehind is Start: a step is stored when it is applied.
func (m *Memory[S]) StartBehind(ctx context.Context, key string, step Step[S], _ func() bool, done func(error)) {
	m.Start(ctx, key, step, done)
}

// Apply applies a step to a key's record. Its error is that of the context.
func (m *Memory[S]) Apply(ctx context.Context, key string, step Step[S]) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	next, ttl := step(m.record(key))
	if ttl <= 0 {
		return nil
	}
	m.records[key] = kept[S]{next, m.now().Add(ttl)}
	if len(m.records) > m.sweepAt {
		m.sweep()
	}
	return nil
}

// Read returns a key's record; the zero record if there is none.
func (m *Memory[S]) Read(_ context.Context, key string) (S, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.record(key), nil
}

func (m *Memory[S]) record(key string) (none S) {
	if k, known := m.records[key]; known && m.now().Before(k.until) {
		return k.record
	}
	return none
}

func (m *Memory[S]) sweep() {
	now := m.now()
	for key, k := range m.records {
		if !now.Before(k.until) {
			delete(m.records, key)
		}
	}
	m.sweepAt = max(firstSweep, 2*len(m.records))
}
