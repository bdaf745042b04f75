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
	figureUnjudged = "unjudged"
	figureStopped  = "stopped"
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
	// unjudged are the requests that were forwarded without a full decision, stopped
	// those that were refused.
	unjudged, stopped atomic.Int64
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
	out[figureUnjudged], out[figureStopped] = float64(r.unjudged.Load()), float64(r.stopped.Load())
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
		a.left = a.sessions[int(a.next.Add(1)-1)%len(a.sessions)].Turns
		a.mark = a.b.replays.Add(1)
		a.key = fmt.Sprintf("sk-bench-%08x", a.mark)
	}
	a.body = a.left[0].Append(a.body[:0], a.mark)
	a.left = a.left[1:]
	got, err := a.conn.post(ctx, a.key, a.body)
	if err != nil {
		return err
	}
	if got.unjudged {
		a.unjudged.Add(1)
	}
	switch got.status {
	case http.StatusOK:
		return nil
	case http.StatusTooManyRequests:
		a.stopped.Add(1)
		a.left = nil
		return nil
	}
	return fmt.Errorf("%w: status %d", errAnswer, got.status)
}

// againstSuffix follows the names of the contenders of the other binary.
const againstSuffix = ", other binary"

// rival is a binary that is measured.
type rival struct{ suffix, binary string }

func (b *bench) rivals() []rival {
	all := []rival{{"", b.binary}}
	if b.against != "" {
		all = append(all, rival{againstSuffix, b.against})
	}
	return all
}

// sessions compares sessions of agents through Unloop with the same through a bare proxy.
func (b *bench) sessions(ctx context.Context) (err error) {
	var parts ender
	defer func() { err = errors.Join(err, parts.end()) }()
	all, err := b.replayed()
	if err != nil {
		return err
	}
	upstream, what, err := b.startUpstream(ctx, &parts)
	if err != nil {
		return err
	}
	proxy, err := startProxy(ctx, upstream, &parts)
	if err != nil {
		return err
	}
	contenders := []measure.Contender{b.sessionContender(nameProxy, proxy, all)}
	written := map[string]writes{}
	for _, rival := range b.rivals() {
		for _, kind := range []struct{ name, policies string }{{nameExact, exactPolicies}, {nameUnloop, ""}} {
			in, err := b.startUp(ctx, unloop{binary: rival.binary, policies: kind.policies}, upstream, &parts)
			if err != nil {
				return err
			}
			c := b.sessionContender(kind.name+rival.suffix, in, all)
			if written[c.Name], err = b.writesOf(ctx, in, c); err != nil {
				return err
			}
			contenders = append(contenders, c)
		}
	}
	res, err := measure.Compare(ctx, b.sessionPlan(), contenders...)
	if err != nil {
		return err
	}
	b.title("sessions: %s; upstream %s, all of Unloop in one process", traffic.ShapeOf(all), what)
	b.printSessions(res, nameProxy, written)
	b.printAgainst(res)
	b.sessionTargets(res, written)
	return nil
}

func (b *bench) sessionPlan() measure.Plan {
	return measure.Plan{Rounds: b.plan.Rounds, Calls: b.calls, Levels: b.inFlight}
}
