// Package fanout delivers each event to all endpoints that want it. When an endpoint
// fails, only that endpoint gets the event again.
//
// It knows which events an endpoint asks for, not how one is reached or when a
// delivery is tried again.
package fanout

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/unloop/unloop/schemas/event"
)

// maxRemembered bounds the events whose deliveries are remembered in part; for
// older ones an endpoint may get an event again, under the same id.
const maxRemembered = 10_000

// Sink takes events; delivery.Sink says more.
type Sink interface {
	Send(ctx context.Context, e event.Event, body []byte) error
}

// Target is an endpoint and the events that it gets.
type Target struct {
	Sink
	// Project and Tenant are those of the events; "" for all.
	Project, Tenant string
}

func (t *Target) wants(e *event.Event) bool {
	return (t.Project == "" || t.Project == e.ProjectID) && (t.Tenant == "" || t.Tenant == e.TenantID)
}

// Fanout is a sink that delivers to all targets. It is safe for concurrent use.
type Fanout struct {
	name    string
	targets []Target

	mu sync.Mutex
	// done tells, by event id, which targets need the event no more. ids lists the
	// ids, the oldest first.
	done map[string][]bool
	ids  []string
}

// New returns a sink of that name.
func New(name string, targets []Target) *Fanout {
	return &Fanout{name: name, targets: targets, done: map[string][]bool{}}
}

// Name is the sink's name in metrics and logs.
func (f *Fanout) Name() string { return f.name }

// Send delivers an event to the targets that want it and do not have it yet. It returns
// the errors of targets that may take it later; if there are none and all targets
// refused the event for good, it returns theirs.
func (f *Fanout) Send(ctx context.Context, e event.Event, body []byte) error {
	done := f.of(e.ID)
	errs, sent := make([]error, len(f.targets)), make([]bool, len(f.targets))
	var sending sync.WaitGroup
	for i := range f.targets {
		if done[i] || !f.targets[i].wants(&e) {
			continue
		}
		sent[i] = true
		sending.Go(func() {
			if errs[i] = f.targets[i].Send(ctx, e, body); errs[i] != nil {
				errs[i] = fmt.Errorf("endpoint %d: %w", i+1, errs[i])
			}
		})
	}
	sending.Wait()
	return f.record(e.ID, done, sent, errs)
}

// of returns which targets are done with an event.
func (f *Fanout) of(id string) []bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	done := make([]bool, len(f.targets))
	copy(done, f.done[id])
	return done
}

// record keeps the results of an event until no target needs it any more.
func (f *Fanout) record(id string, done, sent []bool, errs []error) error {
	var later, refused []error
	delivered := slices.Contains(done, true)
	for i, err := range errs {
		switch {
		case !sent[i]:
		case err == nil:
			delivered, done[i] = true, true
		case permanent(err):
			refused, done[i] = append(refused, err), true
		default:
			later = append(later, err)
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(later) > 0 {
		f.remember(id, done)
		return delayed{errors.Join(later...)}
	}
	delete(f.done, id)
	if delivered {
		return nil
	}
	return errors.Join(refused...)
}

// remember stores which targets are done with an event; the lock is held.
func (f *Fanout) remember(id string, done []bool) {
	if _, known := f.done[id]; !known {
		f.ids = append(f.ids, id)
	}
	f.done[id] = done
	for len(f.ids) > maxRemembered {
		delete(f.done, f.ids[0])
		f.ids = f.ids[1:]
	}
}

func permanent(err error) bool {
	var p interface{ Permanent() bool }
	return errors.As(err, &p) && p.Permanent()
}

// delayed wraps errors, and has the longest RetryAfter of them.
type delayed struct{ error }

func (d delayed) Unwrap() error { return d.error }

// RetryAfter is the least wait before another attempt.
func (d delayed) RetryAfter() (longest time.Duration) {
	joined, ok := d.error.(interface{ Unwrap() []error })
	if !ok {
		return 0
	}
	for _, err := range joined.Unwrap() {
		var w interface{ RetryAfter() time.Duration }
		if errors.As(err, &w) {
			longest = max(longest, w.RetryAfter())
		}
	}
	return longest
}
