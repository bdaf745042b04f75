// Package intake reads requests from clients: it bounds the memory and the idle time
// of their bodies, reads them, and parses prompts.
//
// It knows wire formats by their providers. It knows neither who sent a request nor policies.
package intake

import (
	"context"
	"errors"
	"math/rand/v2"
	"net/http"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/unloop/unloop/gateway/internal/share/fair"
	"github.com/unloop/unloop/schemas/kit/metric"
	"github.com/unloop/unloop/schemas/kit/service"
)

const (
	// mostMemory is the upper bound, in bytes, of the default memory for bodies.
	mostMemory = 512 << 20
	// memoryWait is how long a request waits for memory, less a random part of up to earlier:
	// requests that came together do not give up together, so that memory which one releases
	// helps the others.
	memoryWait, earlier = 5 * time.Second, time.Second
	// mostLooked bounds the callers that are considered when memory becomes free.
	mostLooked = 100
)

// ErrNoRoom means that the memory for bodies, or the caller's share of it, is used up.
var ErrNoRoom = errors.New("no memory for the request body")

// Bodies accounts for the memory of all bodies and their copies, and shares it between
// callers. It also remembers bodies that were too large.
type Bodies struct {
	size    int64
	refused prometheus.Counter
	held    prometheus.Gauge
	passed  *passed

	mu    sync.Mutex
	taken int64
	// by has the memory that each caller has taken.
	by      map[fair.Caller]int64
	waiting fair.Queue[*claim]
	// coming has the bodies that are being received, each with the time from which it counts
	// as slow.
	coming map[*Upload]time.Time
	// looked is the time of the last call of look that did anything.
	looked time.Time
}

// claim is a request for memory that waits.
type claim struct {
	caller fair.Caller
	n      int64
	given  chan struct{} // closed when it is
}

// NewBodies returns bodies with a bound in bytes; 0 derives it from the process's memory
// limit.
func NewBodies(size int64, reg prometheus.Registerer) *Bodies {
	if size == 0 {
		size = min(service.MemoryLimit()/4, mostMemory)
	}
	return &Bodies{
		size: size, passed: newPassed(), by: map[fair.Caller]int64{}, coming: map[*Upload]time.Time{},
		refused: metric.Counter(reg, "unloop_gateway_bodies_refused_total", "Requests refused because the memory for bodies, or the caller's share of it, was full."),
		held:    metric.Gauge(reg, "unloop_gateway_body_bytes", "Memory reserved for request bodies."),
	}
}

// Watch bounds the memory and the idle time of a request's body until Free is called.
// It returns nil for a request without a body.
func (b *Bodies) Watch(w http.ResponseWriter, r *http.Request, caller fair.Caller) *Upload {
	if r.Body == nil || r.Body == http.NoBody {
		return nil
	}
	u := &Upload{ReadCloser: r.Body, conn: http.NewResponseController(w), announced: r.ContentLength, memory: Memory{of: b, ctx: r.Context(), caller: caller}}
	r.Body = u
	return u
}

// try gives memory to a caller if there is enough now.
func (b *Bodies) try(caller fair.Caller, n int64) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.give(caller, n)
}

// give is try; the lock is held.
func (b *Bodies) give(caller fair.Caller, n int64) bool {
	own := b.by[caller]
	if !fair.May(own, n, b.size-b.taken) {
		return false
	}
	b.taken += n
	b.by[caller] = own + n
	b.held.Set(float64(b.taken))
	return true
}

// await waits for memory for a caller; false if that takes too long.
func (b *Bodies) await(ctx context.Context, caller fair.Caller, n int64) bool {
	b.mu.Lock()
	if b.give(caller, n) {
		b.mu.Unlock()
		return true
	}
	one := &claim{caller, n, make(chan struct{})}
	place := b.waiting.Push(caller, one)
	b.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, memoryWait-rand.N(earlier))
	defer cancel()
	look := time.NewTicker(lookEvery)
	defer look.Stop()
	for waits := true; waits; {
		b.look()
		select {
		case <-one.given:
			return true
		case <-look.C:
		case <-ctx.Done():
			waits = false
		}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	select {
	case <-one.given: // at the last moment
		return true
	default:
		b.waiting.Remove(place)
		b.refused.Inc()
		return false
	}
}

// release takes memory back from a caller, and gives it to those that wait, in turn.
func (b *Bodies) release(caller fair.Caller, n int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.taken -= n
	if b.by[caller] -= n; b.by[caller] == 0 {
		delete(b.by, caller)
	}
	b.held.Set(float64(b.taken))
	b.share(mostLooked)
}

// share gives free memory to waiting callers in turn, and considers at most most of them; the
// lock is held.
func (b *Bodies) share(most int) {
	for {
		one, found := b.waiting.PopWithin(most, func(c *claim) bool { return b.give(c.caller, c.n) })
		if !found {
			return
		}
		close(one.given)
	}
}
