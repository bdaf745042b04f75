// Package limiter bounds how many requests are checked at once, by one rule: as many as the
// processors suit have a slot, others queue for one, callers are served in turn, and one
// caller gets no more places in the queue than it leaves free. A request that waits for its
// check is delayed; one that is not checked because the processors were busy would pass
// unguarded.
//
// It knows neither what a check is nor what is done with a request that gets no slot.
//
// Other queues are bounded where they stand, each for a reason of its own: the memory of
// bodies (edge/intake), whose bound is in bytes and is held while a body is sent; throttled
// requests (edge/wait), which wait for a time and not for each other; checks on their way
// (ask/checker), which wait for a detector and share messages; requests over NATS
// (natskit.Inbox), whose responder may be gone.
package limiter

import (
	"context"
	"errors"
	"runtime"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/unloop/unloop/gateway/internal/share/fair"
	"github.com/unloop/unloop/schemas/kit/metric"
	"github.com/unloop/unloop/schemas/kit/natskit"
)

const (
	// leastPerProcessor and mostPerProcessor bound how many requests are checked at once
	// for each processor: few while goroutines wait long for one, since each check waits
	// for it a dozen times, and many while checks wait for others.
	leastPerProcessor, mostPerProcessor = 16, 1024
	// waitingPerProcessor is how many more may wait for each processor. One caller gets no
	// more of these places than it leaves free.
	waitingPerProcessor = 1024
	// Large is the size from which a body is large, in bytes.
	Large = 64 << 10
	// lookEvery is how often the limit is adapted, by a share down and a step up.
	lookEvery    = 10 * time.Millisecond
	share        = 4
	stepPerLimit = 8
	// Patience is how long a request waits for its slot, patienceLarge how long one with a
	// large body waits for the slot to read it.
	Patience, patienceLarge = time.Second, 15 * time.Second
)

// ErrBusy says that too many requests wait already, or that the slot did not come in time.
var ErrBusy = errors.New("too many requests to check")

// Limiter has the slots of a gateway's requests. Make it with New.
//
// Requests with large bodies take another slot to read them, before the one of their check.
// Those take processors for long: if many were read at once, each small request would wait
// for a processor behind all of them, as often as it waits for one.
type Limiter struct {
	checks, large *lane
	seconds       prometheus.Histogram
}

// New returns slots for as many requests as the processors suit.
func New(reg prometheus.Registerer) *Limiter {
	n := runtime.GOMAXPROCS(0)
	var starvation natskit.Starvation
	readers := max(1, n-1)
	t := newLimiter(reg,
		newLane(n*leastPerProcessor, n*mostPerProcessor, n*waitingPerProcessor, Patience, starvation.Since),
		newLane(readers, readers, n*waitingPerProcessor, patienceLarge, func() bool { return false }),
	)
	metric.GaugeFunc(reg, "unloop_gateway_turns_waiting", "Requests that are queued for their check.", func() float64 {
		return float64(t.checks.queued() + t.large.queued())
	})
	return t
}

func newLimiter(reg prometheus.Registerer, checks, large *lane) *Limiter {
	return &Limiter{checks, large, metric.Histogram(reg, "unloop_gateway_turn_seconds", "Time that queued requests waited until their check began.", []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1})}
}

// Slot is the slot of one request. Its methods belong to one goroutine.
type Slot struct {
	of            *Limiter
	checks, reads bool
}

// Take returns a slot for a caller's request, with a large body or not, once there is one.
// It returns ErrBusy if there is none in time, and the context's error if that ends before.
func (t *Limiter) Take(ctx context.Context, caller fair.Caller, large bool) (slot Slot, err error) {
	slot.of = t
	if large {
		if err := t.take(ctx, t.large, caller); err != nil {
			return slot, err
		}
		slot.reads = true
	}
	if err := t.take(ctx, t.checks, caller); err != nil {
		slot.Read()
		return slot, err
	}
	slot.checks = true
	return slot, nil
}

// TakeRead returns a slot to read a text of n bytes alone, and the errors of Take. A text that is
// not large needs none.
func (t *Limiter) TakeRead(ctx context.Context, caller fair.Caller, n int) (slot Slot, err error) {
	slot.of = t
	if n > Large {
		err = t.take(ctx, t.large, caller)
		slot.reads = err == nil
	}
	return slot, err
}

func (t *Limiter) take(ctx context.Context, l *lane, caller fair.Caller) error {
	one, err := l.enter(caller)
	if one == nil {
		return err
	}
	began := time.Now()
	defer func() { t.seconds.Observe(time.Since(began).Seconds()) }()
	return l.await(ctx, one)
}

// Read says that the body was read, and the request only waits from now on.
func (t *Slot) Read() {
	if t.reads {
		t.reads = false
		t.of.large.give()
	}
}

// Give gives the slot back.
func (t *Slot) Give() {
	t.Read()
	if t.checks {
		t.checks = false
		t.of.checks.give()
	}
}
