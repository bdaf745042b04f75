// Package limiter bounds how many requests are checked at once: an adaptive number of
// requests have a slot, others queue for one in turns by caller. A request that waits is
// delayed; one whose check fails because the processors are busy would pass unchecked.
//
// It knows neither what a check is nor what happens to a request that gets no slot.
//
// Other queues have bounds of their own: the memory of bodies (edge/intake), in bytes;
// throttled requests (edge/wait), which wait for a time and not for each other; checks
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
	// leastPerProcessor and mostPerProcessor bound the concurrent checks per processor: few
	// while goroutines wait long for one, since each check does so a dozen times, and many
	// while checks wait for detectors.
	leastPerProcessor, mostPerProcessor = 16, 1024
	// waitingPerProcessor is the length of the queue per processor. One caller gets no more
	// places than it leaves free.
	waitingPerProcessor = 1024
	// Large is the size from which a body is large, in bytes.
	Large = 64 << 10
	// lookEvery is how often the limit is adapted, by a share down and a step up.
	lookEvery    = 10 * time.Millisecond
	share        = 4
	stepPerLimit = 8
	// Patience bounds the wait for a slot, patienceLarge the wait for a slot to read a large
	// body.
	Patience, patienceLarge = time.Second, 15 * time.Second
)

// ErrBusy means that too many requests already wait, or that the slot did not come in time.
var ErrBusy = errors.New("too many requests to check")

// Limiter has the slots of a gateway's requests. Make it with New.
//
// Requests with large bodies first take another slot to read them, because that takes much
// processor time: if many were read at once, each small request would wait behind all of them
// whenever it needs a processor.
type Limiter struct {
	checks, large *lane
	seconds       prometheus.Histogram
}

// New returns a limiter for the processors of this machine.
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

// Take waits for a slot for a caller's request, whose body may be large. It returns ErrBusy
// if there is none in time, and the context's error if that ends first.
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

// TakeRead waits for a slot to read a text of n bytes, without one for a check. Its errors
// are those of Take. A text that is not large needs no slot.
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

// Read gives back the slot for reading.
func (t *Slot) Read() {
	if t.reads {
		t.reads = false
		t.of.large.give()
	}
}

// Give gives back all of the slot.
func (t *Slot) Give() {
	t.Read()
	if t.checks {
		t.checks = false
		t.of.checks.give()
	}
}
