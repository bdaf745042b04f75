// Package turns bounds how many requests are checked at once. Others wait their turn, in
// order and not for long: a request that waits for its check is delayed, and one that is
// not checked because the processors were busy would pass unguarded.
//
// It knows neither what a check is nor what is done with a request whose turn does not
// come.
package turns

import (
	"container/list"
	"context"
	"errors"
	"runtime"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/unloop/unloop/schemas/kit/metric"
	"github.com/unloop/unloop/schemas/kit/natskit"
)

const (
	// leastPerProcessor and mostPerProcessor bound how many requests are checked at once
	// for each processor: few while goroutines wait long for one, since each check waits
	// for it a dozen times, and many while checks wait for others.
	leastPerProcessor, mostPerProcessor = 16, 1024
	// waitingPerProcessor is how many more may wait for each processor.
	waitingPerProcessor = 1024
	// lookEvery is how often the limit is adapted, by a share down and a step up.
	lookEvery    = 10 * time.Millisecond
	share        = 4
	stepPerLimit = 8
	// Patience is how long a request waits for its turn.
	Patience = time.Second
)

// ErrBusy says that too many requests wait already, or that the turn did not come in time.
var ErrBusy = errors.New("too many requests wait to be checked")

// Turns are the turns of a gateway's requests. Make it with New.
type Turns struct {
	least, most, room int
	starved           func() bool
	seconds           prometheus.Histogram

	mu sync.Mutex
	// limit is how many requests are checked at once, and taken how many are.
	limit, taken int
	waiting      *list.List // of chan struct{}, closed when it is the request's turn
	looked       time.Time
}

// New returns turns for as many requests as the processors suit.
func New(reg prometheus.Registerer) *Turns {
	n := runtime.GOMAXPROCS(0)
	var starvation natskit.Starvation
	t := newTurns(n*leastPerProcessor, n*mostPerProcessor, n*waitingPerProcessor, starvation.Since)
	reg.MustRegister(t.seconds)
	metric.GaugeFunc(reg, "unloop_gateway_turns_waiting", "Requests that wait for the turn of their check now.", func() float64 {
		t.mu.Lock()
		defer t.mu.Unlock()
		return float64(t.waiting.Len())
	})
	return t
}

// None returns turns that no request gets, for tests.
func None() *Turns { return newTurns(0, 0, 0, func() bool { return true }) }

func newTurns(least, most, room int, starved func() bool) *Turns {
	seconds := metric.Histogram(nil, "unloop_gateway_turn_seconds", "Time that requests waited for the turn of their check, of those that had to.", []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1})
	return &Turns{least: least, most: most, room: room, limit: 2 * least, starved: starved, waiting: list.New(), seconds: seconds}
}

// Take returns nil when it is the request's turn; Give ends the turn. It returns ErrBusy if
// the turn does not come, and the context's error if that ends before.
func (t *Turns) Take(ctx context.Context) error {
	turn, err := t.enter()
	if turn == nil {
		return err
	}
	began := time.Now()
	defer func() { t.seconds.Observe(time.Since(began).Seconds()) }()
	timer := time.NewTimer(Patience)
	defer timer.Stop()
	select {
	case <-turn.Value.(chan struct{}):
		return nil
	case <-timer.C:
		err = ErrBusy
	case <-ctx.Done():
		err = ctx.Err()
	}
	return t.leave(turn, err)
}

// enter takes a turn, or a place among those that wait.
func (t *Turns) enter() (*list.Element, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case t.taken < t.limit && t.waiting.Len() == 0:
		t.taken++
		return nil, nil
	case t.waiting.Len() >= t.room:
		return nil, ErrBusy
	default:
		return t.waiting.PushBack(make(chan struct{})), nil
	}
}

// leave gives up a place, unless the turn has come meanwhile.
func (t *Turns) leave(turn *list.Element, err error) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	select {
	case <-turn.Value.(chan struct{}):
		return nil
	default:
		t.waiting.Remove(turn)
		return err
	}
}

// Give ends a turn.
func (t *Turns) Give() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.taken--
	t.adapt(time.Now())
	for t.taken < t.limit && t.waiting.Len() > 0 {
		t.taken++
		close(t.waiting.Remove(t.waiting.Front()).(chan struct{}))
	}
}

// adapt lowers the limit while the process lacks processors, and raises it while requests
// wait although it does not.
func (t *Turns) adapt(now time.Time) {
	if now.Sub(t.looked) < lookEvery {
		return
	}
	t.looked = now
	switch starved := t.starved(); {
	case starved:
		t.limit = max(t.least, t.limit-t.limit/share)
	case t.waiting.Len() > 0:
		t.limit = min(t.most, t.limit+max(1, t.limit/stepPerLimit))
	}
}
