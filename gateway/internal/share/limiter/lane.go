package limiter

import (
	"context"
	"sync"
	"time"

	"github.com/unloop/unloop/gateway/internal/share/fair"
)

// lane has the slots of one kind.
type lane struct {
	least, most, room int
	patience          time.Duration
	starved           func() bool

	mu sync.Mutex
	// limit bounds the slots in use; taken is their number.
	limit, taken int
	waiting      fair.Queue[chan struct{}] // each closed when it is the request's slot
	looked       time.Time
}

// waiter is a request that waits.
type waiter struct {
	slot  chan struct{}
	place fair.Place
}

func newLane(least, most, room int, patience time.Duration, starved func() bool) *lane {
	return &lane{least: least, most: most, room: room, patience: patience, limit: min(2*least, most), starved: starved}
}

// queued returns how many requests wait.
func (l *lane) queued() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.waiting.Len()
}

// enter takes a slot and returns nil, or queues for one.
func (l *lane) enter(caller fair.Caller) (*waiter, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.taken < l.limit && l.waiting.Len() == 0:
		l.taken++
		return nil, nil
	case !fair.May(int64(l.waiting.LenOf(caller)), 1, int64(l.room-l.waiting.Len())):
		return nil, ErrBusy
	default:
		slot := make(chan struct{})
		return &waiter{slot, l.waiting.Push(caller, slot)}, nil
	}
}

// await waits for the slot.
func (l *lane) await(ctx context.Context, one *waiter) (err error) {
	timer := time.NewTimer(l.patience)
	defer timer.Stop()
	select {
	case <-one.slot:
		return nil
	case <-timer.C:
		err = ErrBusy
	case <-ctx.Done():
		err = ctx.Err()
	}
	return l.leave(one, err)
}

// leave leaves the queue, unless the slot has come meanwhile.
func (l *lane) leave(one *waiter, err error) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	select {
	case <-one.slot:
		return nil
	default:
		l.waiting.Remove(one.place)
		return err
	}
}

// give returns a slot, and hands out free ones.
func (l *lane) give() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.taken--
	l.adapt(time.Now())
	for l.taken < l.limit {
		next, found := l.waiting.Pop(func(chan struct{}) bool { return true })
		if !found {
			return
		}
		l.taken++
		close(next)
	}
}

// adapt lowers the limit while the process lacks processors, and raises it while requests
// wait otherwise.
func (l *lane) adapt(now time.Time) {
	if now.Sub(l.looked) < lookEvery {
		return
	}
	l.looked = now
	switch starved := l.starved(); {
	case starved:
		l.limit = max(l.least, l.limit-l.limit/share)
	case l.waiting.Len() > 0:
		l.limit = min(l.most, l.limit+max(1, l.limit/stepPerLimit))
	}
}
