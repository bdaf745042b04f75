// Package turns bounds how many requests are checked at once. Others wait their turn, in
// turn by their callers and not for long: a request that waits for its check is delayed, and
// one that is not checked because the processors were busy would pass unguarded.
//
// It knows neither what a check is nor what is done with a request whose turn does not
// come.
package turns

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
	// Patience is how long a request waits for its turn, patienceLarge how long one with a
	// large body waits for the turn to read it.
	Patience, patienceLarge = time.Second, 15 * time.Second
)

// ErrBusy says that too many requests wait already, or that the turn did not come in time.
var ErrBusy = errors.New("too many requests to check")

// Turns are the turns of a gateway's requests. Make it with New.
//
// Requests with large bodies take another turn to read them, before the one of their check.
// Those take processors for long: if many were read at once, each small request would wait
// for a processor behind all of them, as often as it waits for one.
type Turns struct {
	checks, large *lane
	seconds       prometheus.Histogram
}

// New returns turns for as many requests as the processors suit.
func New(reg prometheus.Registerer) *Turns {
	n := runtime.GOMAXPROCS(0)
	var starvation natskit.Starvation
	readers := max(1, n-1)
	t := newTurns(
		newLane(n*leastPerProcessor, n*mostPerProcessor, n*waitingPerProcessor, Patience, starvation.Since),
		newLane(readers, readers, n*waitingPerProcessor, patienceLarge, func() bool { return false }),
	)
	reg.MustRegister(t.seconds)
	metric.GaugeFunc(reg, "unloop_gateway_turns_waiting", "Requests that are queued for their check.", func() float64 {
		return float64(t.checks.queued() + t.large.queued())
	})
	return t
}

// None returns turns that no request gets, for tests.
func None() *Turns {
	none := newLane(0, 0, 0, Patience, func() bool { return true })
	return newTurns(none, none)
}

func newTurns(checks, large *lane) *Turns {
	return &Turns{checks, large, metric.Histogram(nil, "unloop_gateway_turn_seconds", "Time that queued requests waited until their check began.", []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1})}
}

// Turn is the turn of one request. Its methods belong to one goroutine.
type Turn struct {
	of            *Turns
	checks, reads bool
}

// Take returns the turn of a caller's request, with a large body or not, once it has come.
// It returns ErrBusy if the turn does not come, and the context's error if that ends before.
func (t *Turns) Take(ctx context.Context, caller fair.Caller, large bool) (turn Turn, err error) {
	turn.of = t
	if large {
		if err := t.take(ctx, t.large, caller); err != nil {
			return turn, err
		}
		turn.reads = true
	}
	if err := t.take(ctx, t.checks, caller); err != nil {
		turn.Read()
		return turn, err
	}
	turn.checks = true
	return turn, nil
}

func (t *Turns) take(ctx context.Context, l *lane, caller fair.Caller) error {
	one, err := l.enter(caller)
	if one == nil {
		return err
	}
	began := time.Now()
	defer func() { t.seconds.Observe(time.Since(began).Seconds()) }()
	return l.await(ctx, one)
}

// Read says that the body was read, and the request only waits from now on.
func (t *Turn) Read() {
	if t.reads {
		t.reads = false
		t.of.large.give()
	}
}

// Give ends the turn.
func (t *Turn) Give() {
	t.Read()
	if t.checks {
		t.checks = false
		t.of.checks.give()
	}
}
