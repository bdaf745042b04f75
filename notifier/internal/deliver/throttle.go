package deliver

import (
	"context"
	"fmt"
	"time"

	"github.com/unloop/unloop/schemas"
	"github.com/unloop/unloop/schemas/delivery"
	"github.com/unloop/unloop/schemas/storepb"
)

// state is an endpoint's stored state, or that of its throttle.
type state struct {
	delivery.Endpoint
	// Throttle is the state of the throttle.
	Throttle time.Time `json:"throttle,omitzero"`
}

// Parse reads what Append wrote.
func (s *state) Parse(stored []byte) error { return storepb.ReadDocument(stored, s) }

// Append writes the state as a document.
func (s *state) Append(b []byte) []byte { return storepb.AppendDocument(b, s) }

// throttle takes one message from the endpoint's rate limit, which all notifiers share. If
// none is left, it returns how long the message has to wait.
func (e *endpoint) throttle(ctx context.Context, def *Endpoint) (wait time.Duration, err error) {
	if def.Throttle.Messages <= 0 {
		return 0, nil
	}
	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	err = e.endpoints.Apply(ctx, schemas.ThrottleKey(def.Name), func(s state) (state, time.Duration) {
		var next time.Time
		if next, wait = def.Throttle.Take(s.Throttle, time.Now()); wait > 0 {
			return s, 0
		}
		s.Throttle = next
		return s, (def.Throttle.Per + time.Minute).Truncate(time.Second)
	})
	if err != nil {
		return 0, fmt.Errorf("throttle: %w", err)
	}
	return wait, nil
}

// keepDisabled is how long an endpoint stays disabled unless an operator enables it.
const keepDisabled = 10 * 365 * 24 * time.Hour

// disable stores that an endpoint asked for no more messages.
func (p *Pipeline) disable(ctx context.Context, name, reason string) error {
	return p.change(ctx, name, func(s *state) time.Duration {
		if s.Disabled.IsZero() {
			s.Disabled, s.Reason = time.Now().UTC(), reason
		}
		return keepDisabled
	})
}

// pause stores that an endpoint asked for a pause.
func (p *Pipeline) pause(ctx context.Context, name string, wait time.Duration) error {
	return p.change(ctx, name, func(s *state) time.Duration {
		until := time.Now().Add(wait).UTC()
		if !s.Paused.Before(until) {
			return 0
		}
		s.Paused = until
		if !s.Disabled.IsZero() {
			return keepDisabled
		}
		return (wait + time.Minute).Truncate(time.Second)
	})
}

// change changes an endpoint's state, which this notifier uses at once. step returns the new
// state's TTL; 0 to change nothing.
func (p *Pipeline) change(ctx context.Context, name string, step func(*state) time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	key := schemas.EndpointKey(name)
	var now state
	err := p.endpoints.Apply(ctx, key, func(s state) (state, time.Duration) {
		keep := step(&s)
		now = s
		return s, keep
	})
	if err != nil {
		return fmt.Errorf("store state of endpoint %s: %w", name, err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.states[key] = now.Endpoint
	return nil
}
