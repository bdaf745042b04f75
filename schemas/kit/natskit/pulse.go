package natskit

import (
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/unloop/unloop/schemas/kit/pause"
)

const (
	// pulseEvery is the pause between two looks at the connection, pulseIdle the pause
	// between two round trips while nothing is sent.
	pulseEvery, pulseIdle = 200 * time.Millisecond, 2 * time.Second
	// silentAfter is how long a round trip may take before the server counts as silent.
	silentAfter = 300 * time.Millisecond
	// pulseTimeout is the time after which a round trip is tried again.
	pulseTimeout = time.Second
)

// pulse is the start of the open round trip, in nanoseconds since origin; 0 for none.
type pulse struct{ since atomic.Int64 }

var origin = time.Now()

func (p *pulse) begin()     { p.since.CompareAndSwap(0, int64(time.Since(origin))) }
func (p *pulse) clear()     { p.since.Store(0) }
func (p *pulse) none() bool { return p.since.Load() == 0 }
func (p *pulse) late() bool {
	since := p.since.Load()
	return since != 0 && time.Since(origin)-time.Duration(since) > silentAfter
}

// Silent reports whether the server is connected and has not answered for a while. On a
// machine under load any server may look silent, so requests are refused only after one got
// no answer in time.
func (c *Conn) Silent() bool { return c.up.Load() && c.pulse.late() }

// idle decides when a connection needs no round trip.
type idle struct {
	sent     uint64
	answered time.Time
}

// since reports whether nothing was sent since the last call, and the server has answered
// within pulseIdle.
func (i *idle) since(now nats.Statistics, at time.Time) bool {
	same := now.OutMsgs == i.sent
	i.sent = now.OutMsgs
	return same && at.Sub(i.answered) < pulseIdle
}

// watch makes round trips to the server, seldom while nothing is sent, and records the
// reasons of outages. It may wait for the client's lock.
func (c *Conn) watch() {
	var unused idle
	for pause.For(c.life, pulseEvery) == nil {
		nc := c.NATS()
		if !c.up.Load() {
			if err := nc.LastError(); err != nil {
				c.note(err)
			}
			continue
		}
		if unused.since(nc.Stats(), time.Now()) && c.pulse.none() {
			continue
		}
		c.pulse.begin()
		if nc.FlushTimeout(pulseTimeout) == nil {
			c.pulse.clear()
			unused.answered = time.Now()
		}
	}
}
