package intake

import (
	"context"
	"sync"

	"github.com/unloop/unloop/gateway/internal/share/fair"
)

// Memory is the memory of one body and its copies, or of messages that carry bodies. It
// belongs to one goroutine.
type Memory struct {
	of     *Bodies
	caller fair.Caller
	ctx    context.Context // the request's
	// taken is the reserved memory; used is the part of it in use.
	taken, used int64
	// tried is the memory that tries got; lacked is the size of the try that failed.
	tried, lacked int64
	// passing is set if what is read is not held in memory.
	passing bool
	freed   sync.Once
}

// missing returns how much more memory n more bytes need. A body larger than a caller's share
// takes the whole share.
func (m *Memory) missing(n int64) int64 {
	return min(m.used+n, fair.Most(m.of.size)) - m.taken
}

// try takes n more bytes if they are free.
func (m *Memory) try(n int64) error {
	if m.passing {
		return nil
	}
	if more := m.missing(n); more > 0 {
		if !m.of.try(m.caller, more) {
			m.lacked = n
			return ErrNoRoom
		}
		m.taken += more
	}
	m.used += n
	m.tried += n
	return nil
}

// again waits for the memory of the tries so far and the failed one, so that the caller can
// repeat them.
func (m *Memory) again() error {
	n := m.tried
	m.used, m.tried = m.used-n, 0
	return m.prepare(n + m.lacked)
}

// prepare waits for n more bytes and reserves them.
func (m *Memory) prepare(n int64) error {
	if m.passing {
		return nil
	}
	if more := m.missing(n); more > 0 {
		if !m.of.await(m.ctx, m.caller, more) {
			return ErrNoRoom
		}
		m.taken += more
	}
	return nil
}

// Take waits for n more bytes. Its error is ErrNoRoom.
func (m *Memory) Take(n int) error {
	if err := m.prepare(int64(n)); err != nil {
		return err
	}
	m.used += int64(n)
	return nil
}

// Give returns n bytes.
func (m *Memory) Give(n int) {
	if m.passing {
		return
	}
	m.used -= int64(n)
	if rest := m.taken - max(m.used, 0); rest > 0 {
		m.taken -= rest
		m.of.release(m.caller, rest)
	}
}

// Free returns all memory, once. Nothing is taken afterwards.
func (m *Memory) Free() {
	m.freed.Do(func() {
		if m.taken > 0 {
			m.of.release(m.caller, m.taken)
		}
	})
}

// Reserve returns the memory of a caller that has taken none yet.
func (b *Bodies) Reserve(ctx context.Context, caller fair.Caller) *Memory {
	return &Memory{of: b, ctx: ctx, caller: caller}
}
