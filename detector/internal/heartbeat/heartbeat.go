// Package heartbeat tells gateways that a detector's process runs, and tells the
// detector when its process was frozen for a while.
//
// It does not know what the detector does with messages that arrived meanwhile.
package heartbeat

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/nats-io/nuid"

	"github.com/unloop/unloop/schemas"
	"github.com/unloop/unloop/schemas/kit/natskit"
	"github.com/unloop/unloop/schemas/kit/pause"
)

const (
	// idleEvery is the pause between two beats while no gateway asks.
	idleEvery = 5 * schemas.BeatEvery / 2
	// stalledAfter is how late a beat may be before the detector counts as frozen. It is
	// less than the silence after which gateways ask another detector.
	stalledAfter = 5 * schemas.BeatEvery
	// catchUpTimeout bounds how long messages that the server has already sent may take to
	// arrive.
	catchUpTimeout = time.Second
)

// Heart beats while the process runs. Make it with New.
type Heart struct {
	name string
	conn *natskit.Conn
	// last is the time of the last beat, since born.
	born time.Time
	last atomic.Int64
	// catching says that messages may be waiting that arrived during a stall.
	catching atomic.Bool
	// asked says that a message came since the last beat.
	asked atomic.Bool
}

// New returns a heart that has beaten once.
func New(conn *natskit.Conn) *Heart { return &Heart{name: nuid.Next(), conn: conn, born: time.Now()} }

// Name returns the name under which the detector beats and takes checks.
func (h *Heart) Name() string { return h.name }

func (h *Heart) since() time.Duration { return time.Since(h.born) - time.Duration(h.last.Load()) }
func (h *Heart) mark()                { h.last.Store(int64(time.Since(h.born))) }

// Stalled reports whether a message that is handled now may have waited through a
// stall.
func (h *Heart) Stalled() bool {
	h.asked.Store(true)
	return h.catching.Load() || h.since() > stalledAfter
}

// Run beats until taking ends, and watches for stalls until ctx ends: a detector that
// stops still handles the messages that it was sent before.
func (h *Heart) Run(ctx, taking context.Context) {
	h.mark()
	for {
		if h.since() > stalledAfter {
			h.catchUp()
		}
		h.mark()
		if taking.Err() == nil {
			_ = h.conn.Publish(schemas.SubjectBeat, []byte(h.name)) // without a server nobody listens
		}
		select {
		case <-pause.Together(h.rest()):
		case <-ctx.Done():
			return
		}
	}
}

// rest returns the pause before the next beat.
func (h *Heart) rest() time.Duration {
	if h.asked.Swap(false) {
		return schemas.BeatEvery
	}
	return idleEvery
}

// catchUp keeps the heart stalled until the messages that arrived during a stall were
// handled.
func (h *Heart) catchUp() {
	h.catching.Store(true)
	defer h.catching.Store(false)
	h.conn.CatchUp(catchUpTimeout)
}

// Await returns when the heart beats again, or after catchUpTimeout.
func (h *Heart) Await() {
	tick := time.NewTicker(schemas.BeatEvery / 10)
	defer tick.Stop()
	for began := time.Now(); h.Stalled() && time.Since(began) < catchUpTimeout; {
		<-tick.C
	}
}
