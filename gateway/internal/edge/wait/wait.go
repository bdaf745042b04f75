// Package wait delays throttled requests, and bounds how many wait at once: a throttle must
// not turn a fast loop into a pile of open connections.
//
// It knows neither why a request waits nor what happens to one that may not.
package wait

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/unloop/unloop/schemas/kit/metric"
	"github.com/unloop/unloop/schemas/kit/pause"
)

// ErrCrowded means that too many requests of the same key already wait.
var ErrCrowded = errors.New("too many requests wait")

// Room holds the waiting requests. Make it with New.
type Room struct {
	limit   int
	held    prometheus.Gauge
	mu      sync.Mutex
	waiting map[string]int // requests by key
}

// New returns a room in which at most limit requests of one key wait at once.
func New(limit int, reg prometheus.Registerer) *Room {
	held := metric.Gauge(reg, "unloop_gateway_delayed_requests", "Requests currently delayed by a throttle.")
	return &Room{limit: limit, waiting: map[string]int{}, held: held}
}

// Wait returns nil after d, or at once for the key "". It returns ErrCrowded at once if too
// many requests of the key already wait, and the context's error if that ends first.
func (r *Room) Wait(ctx context.Context, key string, d time.Duration) error {
	if key == "" {
		return nil
	}
	if !r.enter(key) {
		return ErrCrowded
	}
	defer r.leave(key)
	return pause.For(ctx, d)
}

func (r *Room) enter(key string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.waiting[key] >= r.limit {
		return false
	}
	r.waiting[key]++
	r.held.Inc()
	return true
}

func (r *Room) leave(key string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.held.Dec()
	if r.waiting[key]--; r.waiting[key] == 0 {
		delete(r.waiting, key)
	}
}
