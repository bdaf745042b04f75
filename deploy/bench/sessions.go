package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"sync/atomic"

	"github.com/unloop/unloop/deploy/bench/measure"
	"github.com/unloop/unloop/deploy/bench/traffic"
)

// recordedSessions are where recorded sessions may be, beside the repository.
var recordedSessions = []string{"../shared/sessions", "../shared/trajectories"}

// generated is the name of sessions that are generated, and generatedSessions their
// number.
const (
	generated         = "generated"
	generatedSessions = 100
)

// Names of figures that are counted here.
const (
	figureUnjudged   = "unjudged"
	figureUncompared = "uncompared"
	figureStopped    = "stopped"
	figureBusy       = "busy"
)

// replayed are the sessions that parts replay.
func (b *bench) replayed() ([]traffic.Session, error) {
	paths := b.recorded
	if len(paths) == 0 {
		for _, path := range recordedSessions {
			if _, err := os.Stat(b.path(path)); err == nil {
				paths = append(paths, path)
			}
		}
	}
	if len(paths) == 0 || len(paths) == 1 && paths[0] == generated {
		return traffic.Generate(generatedSessions, 1)
	}
	files := make([]string, len(paths))
	for i, path := range paths {
		files[i] = b.path(path)
	}
	return traffic.Read(files...)
}

// replay sends sessions to an instance, turn after turn within each.
type replay struct {
	b        *bench
	in       *instance
	sessions []traffic.Session
	// next is the session that a caller without one takes.
	next atomic.Int64
	counts
}

// counts count answers: requests that were forwarded without a decision or without the
// comparison of their texts, that were refused as loops, and that were refused because too
// many waited.
type counts struct{ forwarded, unjudged, uncompared, stopped, busy atomic.Int64 }

var errStatus = errors.New("unexpected status")

func (c *counts) add(got reply) error {
	switch got.status {
	case http.StatusOK:
		c.forwarded.Add(1)
		if got.unjudged {
			c.unjudged.Add(1)
		}
		if got.uncompared {
			c.uncompared.Add(1)
		}
	case http.StatusTooManyRequests, http.StatusBadRequest: // the latter if the loop came back
		c.stopped.Add(1)
	case http.StatusServiceUnavailable:
		c.busy.Add(1)
	default:
		return fmt.Errorf("%w %d", errStatus, got.status)
	}
	return nil
}

// sessionContender replays sessions, in each sample of a round the same ones.
func (b *bench) sessionContender(name string, in *instance, sessions []traffic.Session) measure.Contender {
	r := &replay{b: b, in: in, sessions: sessions}
	return measure.Contender{Name: name, Meter: r.read, Caller: func(round, caller int) (measure.Op, func(), error) {
		const step = 37 // so that rounds begin with other sessions
		if caller == 0 {
			r.next.Store(int64(round * step))
		}
		conn, err := dial(in.url)
		if err != nil {
			return nil, nil, err
		}
		a := &agent{replay: r, conn: conn}
		return a.step, conn.close, nil
	}}
}

func (r *replay) read(ctx context.Context) (measure.Reading, error) {
	out, err := r.in.read(ctx)
	if err != nil {
		return nil, err
	}
	out[figureUncompared] = float64(r.uncompared.Load())
	out[figureUnjudged], out[figureStopped], out[figureBusy] = float64(r.unjudged.Load()), float64(r.stopped.Load()), float64(r.busy.Load())
	return out, nil
}

// agent is in the middle of a session, on a connection.
type agent struct {
	*replay
	conn *client
	left []traffic.Turn
	mark uint32
	key  string
	body []byte
}

// step sends the next request of the session, or the first one of the next session.
func (a *agent) step(ctx context.Context) error {
	if len(a.left) == 0 {
		a.begin()
	}
	got, err := a.send(ctx)
	if err != nil {
		return err
	}
	if got.status != http.StatusOK {
		a.left = nil
	}
	return a.add(got)
}

// begin begins the next session.
func (a *agent) begin() {
	a.left = a.sessions[int(a.next.Add(1)-1)%len(a.sessions)].Turns
	a.mark = a.b.replays.Add(1)
	a.key = fmt.Sprintf("sk-bench-%08x", a.mark)
}

func (a *agent) send(ctx context.Context) (reply, error) {
	a.body = a.left[0].Append(a.body[:0], a.mark)
	a.left = a.left[1:]
	return a.conn.post(ctx, a.key, a.body)
}
