package natskit

import (
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/unloop/unloop/schemas/kit/pause"
)

const (
	// pulseEvery is the pause between two looks at the connection, and pulseIdle that
	// between two round trips while nothing is sent.
	pulseEvery, pulseIdle = 250 * time.Millisecond, 2 * time.Second
	// silentAfter is how long a round trip may take before the server counts as silent.
	silentAfter = 300 * time.Millisecond
	// pulseTimeout is the time after which a round trip is tried again.
	pulseTimeout = time.Second
)

// pulse is the time since which the server owes an answer, in nanoseconds since origin;
// 0 if it owes none.
type pulse struct{ since atomic.Int64 }

var origin = time.Now()

func (p *pulse) begin()     { p.since.CompareAndSwap(0, int64(time.Since(origin))) }
func (p *pulse) clear()     { p.since.Store(0) }
func (p *pulse) none() bool { return p.since.Load() == 0 }
func (p *pulse) late() bool {
	since := p.since.Load()
	return since != 0 && time.Since(origin)-time.Duration(since) > silentAfter
}

// Silent reports that the server is connected and has not answered for a while. It may
// also look silent on a machine under load, so requests are refused only after one was
// not answered in time.
func (c *Conn) Silent() bool { return c.up.Load() && c.pulse.late() }

// traffic is what a connection had sent and received, and when it last showed that the
// server is there.
type traffic struct {
	sent, received uint64
	shown          time.Time
}

// since reports whether the server has sent something since the last call, and whether it
// need not: nothing was sent to it either, and it showed itself within pulseIdle.
func (t *traffic) since(now nats.Statistics, at time.Time) (heard, idle bool) {
	heard, idle = now.InMsgs > t.received, now.OutMsgs == t.sent && at.Sub(t.shown) < pulseIdle
	if t.sent, t.received = now.OutMsgs, now.InMsgs; heard {
		t.shown = at
	}
	return heard, idle
}

// watch measures round trips to the server unless messages show that it is there, and
// notes the reason of an outage. It may wait for the client's lock.
func (c *Conn) watch() {
	var seen traffic
	for pause.For(c.life, pulseEvery) == nil {
		nc := c.NATS()
		if !c.up.Load() {
			if err := nc.LastError(); err != nil {
				c.note(err)
			}
			continue
		}
		heard, idle := seen.since(nc.Stats(), time.Now())
		if idle && !heard && c.pulse.none() {
			continue
		}
		c.pulse.begin()
		if heard || nc.FlushTimeout(pulseTimeout) == nil {
			c.pulse.clear()
			seen.shown = time.Now()
		}
	}
}
