// Package servertime is the clock of the NATS server that leads a stream. Processes that
// share records use this one clock, so that the skew of their machines' clocks does not
// matter.
//
// It measures as NTP does: the server's time is that of the middle of the round trip, with an
// error of at most half the round trip.
package servertime

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/unloop/unloop/schemas/kit/pause"
)

const (
	// Tolerated is the offset of the machine's clock that is not corrected.
	Tolerated = 250 * time.Millisecond
	// every is the pause between two measurements.
	every = 2 * time.Second
	// first is the number of measurements of Sync.
	first = 4
	// timeout bounds one measurement.
	timeout = time.Second
	// drift is the growth of a measurement's error with its age: ten times the usual drift of
	// clocks.
	drift = 1e-3
	// wrong is the offset from which a warning is logged, at most once per warnEvery.
	wrong     = time.Minute
	warnEvery = time.Minute
)

// errBackwards means that the machine's clock ran backwards, or that the server's answer
// had no time.
var errBackwards = errors.New("no time of the server could be measured")

// Clock is the server's clock, or the machine's until that was measured. Make it with New.
// Start measures the server's clock, by Sync and then Run; the other methods may be called at
// any time.
type Clock struct {
	ask   func(context.Context) (time.Time, error)
	local func() time.Time
	log   *slog.Logger
	// began is the time of creation. The time since then comes from the monotonic clock,
	// which is never set.
	began time.Time
	// base is the value of Now at creation, in Unix nanoseconds.
	base   atomic.Int64
	offset atomic.Int64
	best   sample
	warned time.Duration
}

// sample is one measurement. The zero sample is none.
type sample struct {
	// base is what the server's clock showed when the Clock was made.
	base time.Time
	// doubt is the maximum error of base.
	doubt time.Duration
	// at is the time of the measurement, since the Clock was made.
	at time.Duration
}

// New returns a clock. ask returns the server's time; local is the machine's clock.
func New(local func() time.Time, ask func(context.Context) (time.Time, error), log *slog.Logger) *Clock {
	c := &Clock{local: local, began: local(), ask: ask, log: log, warned: -warnEvery}
	c.base.Store(c.began.UnixNano())
	return c
}

// Now returns the server's time, or the machine's if they differ by at most Tolerated or the
// server's is not known.
func (c *Clock) Now() time.Time {
	return time.Unix(0, c.base.Load()+int64(c.local().Sub(c.began)))
}

// Offset returns by how much the server's clock is ahead of the machine's.
func (c *Clock) Offset() time.Duration { return time.Duration(c.offset.Load()) }

// Gauge returns a metric of the offset.
func (c *Clock) Gauge(name string) prometheus.Collector {
	return prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: name, Help: "Seconds by which the NATS server's clock is ahead of this machine's.",
	}, func() float64 { return c.Offset().Seconds() })
}

// Start measures the server's time, and keeps measuring in the background until the context
// ends.
func (c *Clock) Start(ctx context.Context) {
	if err := c.Sync(ctx); err != nil && ctx.Err() == nil { // as in a cluster whose first streams are being made
		c.log.Debug("the NATS server's time is not known yet, using the machine's", "error", err)
	}
	go c.Run(ctx)
}

// Sync measures the server's time a few times. It fails if no measurement ever succeeded.
func (c *Clock) Sync(ctx context.Context) error {
	var last error
	for range first {
		if err := c.measure(ctx); err != nil {
			last = err
		}
	}
	if c.best.base.IsZero() {
		return last
	}
	return nil
}

// Run measures the server's time until the context ends.
func (c *Clock) Run(ctx context.Context) {
	for pause.For(ctx, every) == nil {
		_ = c.measure(ctx) // without an answer the last measurement stays in use
	}
}

func (c *Clock) measure(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	sent := c.local()
	server, err := c.ask(ctx)
	received := c.local()
	switch {
	case err != nil:
		return err
	case server.IsZero() || received.Before(sent):
		return errBackwards
	}
	c.take(sent, received, server)
	return nil
}

// take applies a measurement.
func (c *Clock) take(sent, received, server time.Time) {
	from, to := sent.Sub(c.began), received.Sub(c.began)
	c.best = c.best.or(sample{base: server.Add(-(from + to) / 2), doubt: (to - from) / 2, at: to})
	machine := received.Round(0).Add(-to) // the machine's clock, as it is set now, at creation
	offset := c.best.base.Sub(machine)
	c.offset.Store(int64(offset))
	if offset.Abs() <= Tolerated+c.best.doubt {
		c.base.Store(machine.UnixNano())
		return
	}
	c.base.Store(c.best.base.UnixNano())
	if offset.Abs() > wrong && to-c.warned >= warnEvery {
		c.warned = to
		c.log.Warn("this machine's clock is wrong, using the NATS server's; set both by NTP", slog.Duration("behind", offset))
	}
}

// or returns the better of two measurements: the newer one, unless the older one is more
// exact and consistent with it.
func (s sample) or(newer sample) sample {
	s.doubt += time.Duration(drift * float64(newer.at-s.at))
	s.at = newer.at
	if !s.base.IsZero() && s.doubt < newer.doubt && newer.base.Sub(s.base).Abs() <= s.doubt+newer.doubt {
		return s
	}
	return newer
}
