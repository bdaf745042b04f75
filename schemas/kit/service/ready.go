package service

import (
	"context"
	"errors"
	"fmt"
	"sync"
)

// ErrStarting is the readiness of a service before the first call of Set.
var ErrStarting = errors.New("starting")

// Readiness is the state of a service: nil if it is ready, else an error. The zero value is
// ErrStarting.
type Readiness struct {
	mu      sync.Mutex
	set     bool
	err     error
	also    []func() error
	changed chan struct{}
}

// ErrDraining is the readiness of a service that is shutting down.
var ErrDraining = errors.New("draining: the process was told to stop")

// Also adds a check that Err, but not Wait, calls each time. If a check returns ErrStarting,
// others may give the cause. It is called before the service runs.
func (r *Readiness) Also(check func() error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.also = append(r.also, check)
}

// Set sets the state: nil for ready.
func (r *Readiness) Set(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.set, r.err = true, err
	if r.changed != nil {
		close(r.changed)
		r.changed = nil
	}
}

// Err returns nil if the service is ready. While the service starts, the error includes the
// first failing check.
func (r *Readiness) Err() error {
	err, _ := r.state()
	for _, check := range r.checks() {
		switch {
		case err == nil:
			err = check()
		case errors.Is(err, ErrStarting):
			if cause := check(); cause != nil && !errors.Is(cause, ErrStarting) {
				return fmt.Errorf("%w: %w", err, cause)
			}
		}
	}
	return err
}

func (r *Readiness) checks() []func() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.also
}

// Wait waits until the service is ready. If the context ends first, it returns the context's
// error and the state.
func (r *Readiness) Wait(ctx context.Context) error {
	for {
		err, changed := r.state()
		if err == nil {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return errors.Join(ctx.Err(), err)
		}
	}
}

//nolint:revive // the error is the state here, and the channel announces the next one
func (r *Readiness) state() (error, <-chan struct{}) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.changed == nil {
		r.changed = make(chan struct{})
	}
	if !r.set {
		return ErrStarting, r.changed
	}
	return r.err, r.changed
}
