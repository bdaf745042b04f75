package main

import (
	"context"
	"errors"

	"github.com/unloop/unloop/deploy/bench/measure"
	"github.com/unloop/unloop/deploy/bench/traffic"
)

// Names of contenders that replay sessions.
const (
	nameTogether  = "Unloop, one process"
	nameApart     = "Unloop, four processes"
	againstSuffix = ", other binary"
)

// rival is a binary that is measured; suffix follows the names of its contenders.
type rival struct{ suffix, binary string }

func (b *bench) rivals() []rival {
	all := []rival{{"", b.binary}}
	if b.against != "" {
		all = append(all, rival{againstSuffix, b.against})
	}
	return all
}

// ways are the ways in which Unloop is started.
var ways = []struct {
	name  string
	start func(*bench, context.Context, unloop, string, *ender) (*instance, error)
}{{nameTogether, (*bench).startUp}, {nameApart, (*bench).startApart}}

// stage is where sessions are replayed.
type stage struct {
	ender
	all            []traffic.Session
	proxy          *instance
	upstream, what string
	contenders     []measure.Contender
	written        map[string]writes
}

// newStage starts the upstream and a bare proxy.
func (b *bench) newStage(ctx context.Context) (*stage, error) {
	s := &stage{written: map[string]writes{}}
	var err error
	if s.all, err = b.replayed(); err != nil {
		return s, err
	}
	if s.upstream, s.what, err = b.startUpstream(ctx, &s.ender); err != nil {
		return s, err
	}
	if s.proxy, err = startProxy(ctx, s.upstream, &s.ender); err != nil {
		return s, err
	}
	s.contenders = append(s.contenders, b.sessionContender(nameProxy, s.proxy, s.all))
	return s, nil
}

// add adds a contender and counts what it writes to JetStream.
func (b *bench) add(ctx context.Context, s *stage, name string, in *instance) (err error) {
	c := b.sessionContender(name, in, s.all)
	s.written[name], err = b.writesOf(ctx, in, c)
	s.contenders = append(s.contenders, c)
	return err
}

// sessions compares sessions of agents through Unloop with the same through a bare proxy.
func (b *bench) sessions(ctx context.Context) (err error) {
	s, err := b.newStage(ctx)
	defer func() { err = errors.Join(err, s.end()) }()
	if err != nil {
		return err
	}
	for _, rival := range b.rivals() {
		for _, kind := range []struct{ name, policies string }{{nameExact, exactPolicies}, {nameUnloop, ""}} {
			in, err := b.startUp(ctx, unloop{binary: rival.binary, policies: kind.policies}, s.upstream, &s.ender)
			if err != nil {
				return err
			}
			if err := b.add(ctx, s, kind.name+rival.suffix, in); err != nil {
				return err
			}
		}
	}
	res, err := measure.Compare(ctx, b.sessionPlan(), s.contenders...)
	if err != nil {
		return err
	}
	b.title("sessions: %s; upstream %s, all of Unloop in one process", traffic.ShapeOf(s.all), s.what)
	b.printSessions(res, nameProxy, s.written)
	b.printAgainst(res, nameExact, nameUnloop)
	b.sessionTargets(res, s.written)
	return nil
}

func (b *bench) sessionPlan() measure.Plan {
	return measure.Plan{Rounds: b.plan.Rounds, Calls: b.calls, Levels: b.inFlight}
}

// apart compares the default policy in one process with the same in four: gateway, NATS
// server, detector and embedding worker.
func (b *bench) apart(ctx context.Context) (err error) {
	s, err := b.newStage(ctx)
	defer func() { err = errors.Join(err, s.end()) }()
	if err != nil {
		return err
	}
	for _, rival := range b.rivals() {
		for _, way := range ways {
			in, err := way.start(b, ctx, unloop{binary: rival.binary}, s.upstream, &s.ender)
			if err != nil {
				return err
			}
			if err := b.add(ctx, s, way.name+rival.suffix, in); err != nil {
				return err
			}
		}
	}
	res, err := measure.Compare(ctx, b.sessionPlan(), s.contenders...)
	if err != nil {
		return err
	}
	b.title("sessions, default policy, one process against four (gateway, NATS server, detector, embedding worker)")
	b.printSessions(res, nameProxy, s.written)
	b.printAgainst(res, nameTogether, nameApart)
	return nil
}
