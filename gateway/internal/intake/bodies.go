// Package intake reads requests from clients: it bounds the memory and the idle time
// of their bodies, reads them, and parses prompts.
//
// It knows wire formats by their providers. It does not know who sent a request, or
// what policies say about it.
package intake

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/semaphore"

	"github.com/unloop/unloop/schemas/kit/service"
)

const (
	// mostMemory is the memory for bodies of a process that has much, in bytes.
	mostMemory = 512 << 20
	// memoryWait is how long a request waits for the memory of its body.
	memoryWait = 5 * time.Second
	// step is by how much a body of unknown length asks for more memory, in bytes.
	step = 256 << 10
)

// ErrNoRoom says that a body was not read because the bodies of other requests take
// all the memory for bodies.
var ErrNoRoom = errors.New("no memory for the request body")

// Bodies bounds the memory of the bodies of all requests, and remembers those that were
// too large to hold. The nil Bodies bounds nothing.
//
// Bodies of unknown length ask for their memory in steps. Their first steps take at
// most half of all memory, and one body at a time takes more steps, so that some are
// always read to their end.
type Bodies struct {
	size int64
	free *semaphore.Weighted
	// begun bounds the first steps of bodies of unknown length. turn is taken by the
	// body that takes further steps.
	begun, turn *semaphore.Weighted
	refused     prometheus.Counter
	held        prometheus.Gauge
	passed      *passed
}

// NewBodies returns a bound in bytes; 0 for one that suits the process's memory.
func NewBodies(size int64, reg prometheus.Registerer) *Bodies {
	if size == 0 {
		size = min(service.MemoryLimit()/4, mostMemory)
	}
	b := &Bodies{
		size: size, free: semaphore.NewWeighted(size),
		begun: semaphore.NewWeighted(size / 2), turn: semaphore.NewWeighted(1), passed: newPassed(),
		refused: prometheus.NewCounter(prometheus.CounterOpts{Name: "unloop_gateway_bodies_refused_total", Help: "Requests refused because the bodies of others took all memory for bodies."}),
		held:    prometheus.NewGauge(prometheus.GaugeOpts{Name: "unloop_gateway_body_bytes", Help: "Memory that is set aside for request bodies."}),
	}
	reg.MustRegister(b.refused, b.held)
	return b
}

// Watch bounds the memory and the idle time of a request's body until Free is called.
// It returns nil for a request without a body.
func (b *Bodies) Watch(w http.ResponseWriter, r *http.Request) *Upload {
	if r.Body == nil || r.Body == http.NoBody {
		return nil
	}
	u := &Upload{ReadCloser: r.Body, conn: http.NewResponseController(w), memory: memory{of: b, ctx: r.Context()}}
	r.Body = u
	return u
}

// memory is the memory of one body. It belongs to one goroutine.
type memory struct {
	of  *Bodies
	ctx context.Context // the request's
	// taken is set aside, used what the body needs of it so far, and first the first
	// step of a body of unknown length.
	taken, used, first int64
	// growing says that it is this body's turn.
	growing bool
	// passing says that what is read is not held.
	passing bool
}

// hold takes memory for n more bytes; ended says that there are no more to read.
func (m *memory) hold(n int, ended bool) error {
	if m.of == nil || m.passing {
		return nil
	}
	if m.used += int64(n); m.used > m.taken {
		if err := m.grow(max(m.used-m.taken, step)); err != nil {
			return err
		}
	}
	if ended {
		m.endTurn()
	}
	return nil
}

// grow takes more memory for a body of unknown length: a first step, or others in
// its turn.
func (m *memory) grow(n int64) error {
	ctx, cancel := context.WithTimeout(m.ctx, memoryWait)
	defer cancel()
	var err error
	switch first := min(n, m.of.size/2); {
	case m.taken == 0:
		if err = m.of.begun.Acquire(ctx, first); err == nil {
			m.first = first
		}
	case !m.growing:
		err = m.of.turn.Acquire(ctx, 1)
		m.growing = err == nil
	}
	if err != nil {
		m.of.refused.Inc()
		return ErrNoRoom
	}
	return m.take(n)
}

// take sets more memory aside as soon as it is free. A body that is larger than all
// memory for bodies takes all of it.
func (m *memory) take(n int64) error {
	if m.of == nil {
		return nil
	}
	n = min(n, m.of.size-m.taken)
	if n <= 0 {
		return nil
	}
	if !m.of.free.TryAcquire(n) && !m.await(n) {
		m.of.refused.Inc()
		return ErrNoRoom
	}
	m.taken += n
	m.of.held.Add(float64(n))
	return nil
}

// await waits until memory is free; false if that takes too long.
func (m *memory) await(n int64) bool {
	ctx, cancel := context.WithTimeout(m.ctx, memoryWait)
	defer cancel()
	return m.of.free.Acquire(ctx, n) == nil
}

// pass says that the rest of the body is not held.
func (m *memory) pass() {
	m.passing = true
	m.endTurn()
}

func (m *memory) endTurn() {
	if m.growing {
		m.growing = false
		m.of.turn.Release(1)
	}
}

func (m *memory) release() {
	if m.of == nil {
		return
	}
	m.endTurn()
	m.of.begun.Release(m.first)
	m.of.free.Release(m.taken)
	m.of.held.Sub(float64(m.taken))
	m.taken, m.first = 0, 0
}
