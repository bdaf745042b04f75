package deliver

import (
	"context"
	"sync"
	"time"

	"github.com/unloop/unloop/notifier/internal/outbox"
)

// agenda schedules work by key: each key has at most one timer, and workers take the keys
// that are due.
type agenda struct {
	mu    sync.Mutex
	items map[string]*item
	// due are the items that are due, oldest first.
	due  []*item
	wake chan struct{}
}

// item is a key with its time.
type item struct {
	key string
	// lapsed is the claim that has expired when the item is due; zero for none.
	lapsed outbox.Claim
	timer  *time.Timer
}

func newAgenda() *agenda {
	return &agenda{items: map[string]*item{}, wake: make(chan struct{}, 1)}
}

// set makes a key due after a wait, whatever was set before.
func (a *agenda) set(key string, wait time.Duration, lapsed outbox.Claim) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.stop(key)
	it := &item{key: key, lapsed: lapsed}
	a.items[key] = it
	it.timer = time.AfterFunc(max(wait, 0), func() { a.ring(it) })
}

// setIfNone is set for a key without a timer.
func (a *agenda) setIfNone(key string, wait time.Duration, lapsed outbox.Claim) {
	a.mu.Lock()
	_, known := a.items[key]
	a.mu.Unlock()
	if !known {
		a.set(key, wait, lapsed)
	}
}

// hasten makes a key with a timer due now, unless it waits for a claim to expire.
func (a *agenda) hasten(key string) {
	a.mu.Lock()
	it := a.items[key]
	a.mu.Unlock()
	if it != nil && it.lapsed == (outbox.Claim{}) {
		a.set(key, 0, outbox.Claim{})
	}
}

// ring makes an item due, unless it has been replaced.
func (a *agenda) ring(it *item) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.items[it.key] != it {
		return
	}
	delete(a.items, it.key)
	a.due = append(a.due, it)
	a.signal()
}

// drop removes a key's timer.
func (a *agenda) drop(key string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.stop(key)
}

// clear removes all timers and what is due.
func (a *agenda) clear() {
	a.mu.Lock()
	defer a.mu.Unlock()
	for key := range a.items {
		a.stop(key)
	}
	a.due = nil
}

// stop stops a key's timer. The caller holds the lock.
func (a *agenda) stop(key string) {
	if old := a.items[key]; old != nil {
		old.timer.Stop()
		delete(a.items, key)
	}
}

// signal wakes one worker. The caller holds the lock.
func (a *agenda) signal() {
	select {
	case a.wake <- struct{}{}:
	default: // a worker is being woken, and wakes the next one
	}
}

// next waits for an item that is due. It returns false after the end of the context.
func (a *agenda) next(ctx context.Context) (*item, bool) {
	for {
		if it := a.take(); it != nil {
			return it, ctx.Err() == nil
		}
		select {
		case <-a.wake:
		case <-ctx.Done():
			return nil, false
		}
	}
}

func (a *agenda) take() *item {
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.due) == 0 {
		return nil
	}
	it := a.due[0]
	if a.due = a.due[1:]; len(a.due) > 0 {
		a.signal()
	}
	return it
}
