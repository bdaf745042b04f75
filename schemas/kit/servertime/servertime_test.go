package servertime

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// server is a NATS server at a distance whose clock is off.
type server struct {
	off, there, back time.Duration
	err              error
}

func (s *server) ask(ctx context.Context) (time.Time, error) {
	pass(ctx, s.there)
	now := time.Now().Add(s.off)
	pass(ctx, s.back)
	return now, errors.Join(s.err, ctx.Err())
}

// pass lets time pass, unless the context ends.
func pass(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}

// machine is a clock that is off.
type machine struct{ off time.Duration }

func (m *machine) now() time.Time { return time.Now().Add(m.off) }

const halfYear = 182 * 24 * time.Hour

func newClock(s *server, m *machine, log *slog.Logger) *Clock {
	return New(m.now, s.ask, log)
}

// run measures for a while.
func run(t *testing.T, c *Clock, d time.Duration) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), d)
	defer cancel()
	c.Run(ctx)
}

var discard = slog.New(slog.DiscardHandler)

// wrongBy is how far a clock is from the server's.
func wrongBy(c *Clock, s *server) time.Duration { return c.Now().Sub(time.Now().Add(s.off)).Abs() }

func TestEveryMachineGoesByTheServer(t *testing.T) {
	t.Parallel()
	for _, off := range []time.Duration{0, Tolerated / 2, time.Second, -65 * time.Second, 6 * time.Hour, halfYear, -halfYear} {
		for _, s := range []*server{{there: time.Millisecond, back: time.Millisecond}, {there: 90 * time.Millisecond}, {off: time.Hour, back: 90 * time.Millisecond}} {
			synctest.Test(t, func(t *testing.T) {
				m := &machine{off}
				c := newClock(s, m, discard)
				if err := c.Sync(t.Context()); err != nil {
					t.Fatal(err)
				}
				if d := wrongBy(c, s); d > Tolerated+(s.there+s.back) {
					t.Errorf("machine %s off, server %+v: wrong by %s", off, *s, d)
				}
				if d := c.Offset() - (s.off - m.off); d.Abs() > s.there+s.back {
					t.Errorf("machine %s off, server %+v: offset %s", off, *s, c.Offset())
				}
				if off == Tolerated/2 && s.off == 0 && !c.Now().Equal(m.now()) {
					t.Errorf("a clock that is well kept is corrected by %s", c.Now().Sub(m.now()))
				}
			})
		}
	}
}

// Whichever clock is set while the process runs, two measurements later all is well.
func TestClocksAreFollowedWhenTheyAreSet(t *testing.T) {
	t.Parallel()
	for name, set := range map[string]func(*server, *machine){
		"the machine's, ahead":  func(_ *server, m *machine) { m.off = halfYear },
		"the machine's, behind": func(_ *server, m *machine) { m.off = -65 * time.Second },
		"the machine's, right":  func(s *server, m *machine) { m.off = s.off },
		"the server's, ahead":   func(s *server, _ *machine) { s.off = 65 * time.Second },
		"the server's, behind":  func(s *server, _ *machine) { s.off = -halfYear },
		"a slower connection":   func(s *server, _ *machine) { s.there = 400 * time.Millisecond },
	} {
		synctest.Test(t, func(t *testing.T) {
			s, m := &server{there: time.Millisecond, back: time.Millisecond}, &machine{time.Hour}
			c := newClock(s, m, discard)
			if err := c.Sync(t.Context()); err != nil {
				t.Fatal(err)
			}
			run(t, c, 10*every)
			set(s, m)
			run(t, c, 2*every+timeout)
			if d := wrongBy(c, s); d > Tolerated+time.Millisecond {
				t.Errorf("%s: wrong by %s", name, d)
			}
		})
	}
}

// One slow answer does not make an exact clock worse, and none at all changes
// nothing.
func TestExactMeasurementsHold(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, m := &server{there: time.Millisecond, back: time.Millisecond}, &machine{time.Hour}
		c := newClock(s, m, discard)
		if err := c.Sync(t.Context()); err != nil {
			t.Fatal(err)
		}
		s.there = 800 * time.Millisecond
		run(t, c, 10*every)
		s.err = errors.New("no server")
		run(t, c, 10*every)
		if d := wrongBy(c, s); d > 10*time.Millisecond {
			t.Errorf("wrong by %s", d)
		}
	})
}

func TestWithoutAServerTheMachinesClockIsUsed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		want := errors.New("no server")
		m := &machine{time.Hour}
		c := newClock(&server{err: want}, m, discard)
		if err := c.Sync(t.Context()); !errors.Is(err, want) {
			t.Errorf("%v", err)
		}
		if !c.Now().Equal(m.now()) {
			t.Errorf("%s, want %s", c.Now(), m.now())
		}
		silent := New(time.Now, func(context.Context) (time.Time, error) { return time.Time{}, nil }, discard)
		if err := silent.Sync(t.Context()); !errors.Is(err, errBackwards) {
			t.Errorf("a server that tells no time: %v", err)
		}
	})
}

func TestTheLogTellsOfAWrongClockOnceAMinute(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var out strings.Builder
		s, m := &server{}, &machine{-2 * time.Minute}
		c := newClock(s, m, slog.New(slog.NewTextHandler(&out, nil)))
		if err := c.Sync(t.Context()); err != nil {
			t.Fatal(err)
		}
		run(t, c, 3*time.Minute+time.Second)
		m.off = 0
		run(t, c, 3*time.Minute)
		if n := strings.Count(out.String(), "behind=2m"); n < 3 || n > 4 {
			t.Errorf("%d warnings in three minutes:\n%s", n, out.String())
		}
	})
}
