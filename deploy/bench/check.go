package main

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/nats-io/nats.go"
	"google.golang.org/protobuf/proto"

	"github.com/unloop/unloop/deploy/bench/measure"
	"github.com/unloop/unloop/gateway"
	"github.com/unloop/unloop/schemas/checkpb"
	"github.com/unloop/unloop/schemas/kit/natskit"
	"github.com/unloop/unloop/schemas/kit/service"
)

const (
	// keys is the number of fingerprints that a round draws from. Each round has other
	// ones, so that none reaches its threshold: a block would be answered from memory.
	keys = 100_000
	// patience is the check timeout while measuring: a pause of the machine must not
	// count as a failure.
	patience = 5 * time.Second
	// echoSubject is the subject of the echo, the fastest possible answer.
	echoSubject = "bench.echo"
)

// Names of the contenders.
const (
	nameEcho  = "NATS echo"
	nameCheck = "Unloop check over NATS"
	nameNear  = "Unloop check, in process"
	namePlain = "Redis guard, plain"
	nameLua   = "Redis guard, Lua"
)

// check measures checks from the gateway's checker over NATS to a detector, its counters
// and back.
func (b *bench) check(ctx context.Context) error {
	redis, err := startRedis(ctx)
	if err != nil {
		fmt.Fprintf(b.out, "\nRedis is left out: %v\n", err)
	} else {
		defer func() { _ = redis.stop() }() // its store is in memory
	}
	return errors.Join(b.checkTogether(ctx, redis), b.checkApart(ctx, redis))
}

// checkTogether runs client, server and detector in this process.
func (b *bench) checkTogether(ctx context.Context, redis *redisServer) (err error) {
	var parts ender
	defer func() { err = errors.Join(err, parts.end()) }()
	server, err := b.server(&parts)
	if err != nil {
		return err
	}
	connect := func(name string) (*natskit.Conn, error) { return server.Connect(name, b.log) }
	inProcess := natskit.NewInProcess()
	stop, err := startDetector(ctx, connect, inProcess, b.log)
	if err != nil {
		return err
	}
	parts.add(stop)
	res, err := b.compareChecks(ctx, connect, inProcess, redis)
	if err != nil {
		return err
	}
	b.title("check path, one process (in-process connections, file storage)")
	b.printRates(res)
	for _, name := range []string{nameCheck, nameNear} {
		targets := []measure.Target{res.AtLeast(name+": within 3.5 times the echo's time (rate ≥ 0.286×)", name, nameEcho, 1/3.5, levels...)}
		if redis != nil {
			targets = append(targets,
				res.AtLeast(name+": faster than the Lua guard at 1 in flight", name, nameLua, 1, 1),
				res.AtLeast(name+": faster than the plain guard at 8 and 64", name, namePlain, 1, 8, 64))
		}
		measure.PrintTargets(b.out, targets...)
	}
	return nil
}

// checkApart runs server and detector as processes of their own.
func (b *bench) checkApart(ctx context.Context, redis *redisServer) (err error) {
	var parts ender
	defer func() { err = errors.Join(err, parts.end()) }()
	dir, err := b.store()
	if err != nil {
		return err
	}
	server, err := parts.role(ctx, "nats", dir)
	if err != nil {
		return err
	}
	if _, err = parts.role(ctx, "detector", server.Addr); err != nil {
		return err
	}
	res, err := b.compareChecks(ctx, func(name string) (*natskit.Conn, error) { return natskit.Connect(server.Addr, name, b.log) }, nil, redis)
	if err != nil {
		return err
	}
	b.title("check path, three processes (client, NATS server and detector, over loopback)")
	b.printRates(res)
	if redis != nil {
		measure.PrintTargets(b.out,
			res.AtLeast("at least the plain guard's rate at 64", nameCheck, namePlain, 1, 64),
			res.AtLeast("at least the Lua guard's rate at 64", nameCheck, nameLua, 1, 64))
	}
	return nil
}

// compareChecks measures checks over NATS and, if inProcess is not nil, those of a
// gateway and a detector that share a process.
func (b *bench) compareChecks(ctx context.Context, connect func(string) (*natskit.Conn, error), inProcess *natskit.InProcess, redis *redisServer) (_ *measure.Results, err error) {
	var parts ender
	defer func() { err = errors.Join(err, parts.end()) }()
	client, err := connect("bench")
	if err != nil {
		return nil, err
	}
	parts.add(func() error { client.Close(); return nil })
	gw, stop, err := startGateway(ctx, client, nil, b)
	if err != nil {
		return nil, err
	}
	parts.add(stop)
	contenders := []measure.Contender{echoContender(client.NATS()), checkContender(nameCheck, gw)}
	if inProcess != nil {
		near, stop, err := startGateway(ctx, client, inProcess, b)
		if err != nil {
			return nil, err
		}
		parts.add(stop)
		contenders = append(contenders, checkContender(nameNear, near))
	}
	if redis != nil {
		contenders = append(contenders, redis.contender(namePlain, redis.plain), redis.contender(nameLua, redis.lua))
	}
	return measure.Compare(ctx, b.plan, contenders...)
}

// startGateway runs a gateway on a connection; only its checks are used.
func startGateway(ctx context.Context, nc *natskit.Conn, inProcess *natskit.InProcess, b *bench) (*gateway.Gateway, func() error, error) {
	service.Headroom()
	cfg := gateway.DefaultConfig()
	cfg.Listen, cfg.CheckTimeout = "127.0.0.1:0", patience
	gw, err := gateway.New(cfg, service.Deps{Log: b.log, Metrics: service.NewRegistry(), NATS: nc, InProcess: inProcess})
	if err != nil {
		return nil, nil, err
	}
	stop, err := runUntilReady(ctx, gw)
	return gw, stop, err
}

// runUntilReady starts a service and waits until it is ready; stop ends it.
func runUntilReady(ctx context.Context, svc service.Service) (stop func() error, err error) {
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan error, 1)
	go func() { done <- svc.Run(ctx) }()
	stop = func() error { cancel(); return <-done }
	if err := svc.Readiness().Wait(ctx); err != nil {
		return nil, errors.Join(err, stop())
	}
	return stop, nil
}

// echoContender sends a message of the size of a check, which comes back unchanged.
func echoContender(nc *nats.Conn) measure.Contender {
	return measure.Contender{Name: nameEcho, Caller: func(int, int) (measure.Op, func(), error) {
		body, err := proto.Marshal(&checkpb.CheckBatch{BudgetMs: 50, Checks: []*checkpb.Check{promptCheck(0, 0)}})
		op := func(context.Context) error {
			_, err := nc.Request(echoSubject, body, patience)
			return err
		}
		return op, func() {}, err
	}}
}

// checkContender checks through a gateway. Each contender has fingerprints of
// its own.
func checkContender(name string, gw *gateway.Gateway) measure.Contender {
	return measure.Contender{Name: name, Caller: func(round, caller int) (measure.Op, func(), error) {
		if name == nameNear {
			round = ^round
		}
		draw := rand.New(rand.NewPCG(uint64(round), uint64(caller)))
		op := func(ctx context.Context) error {
			_, err := gw.Check(ctx, promptCheck(round, draw.IntN(keys)))
			return err
		}
		return op, func() {}, nil
	}}
}

// promptCheck returns the check of a prompt by the default policy.
func promptCheck(round, i int) *checkpb.Check {
	fp := fingerprintOf(round, i)
	return &checkpb.Check{
		RequestId: "MTkzNDU2Nzg5MDEyMzQ1Njc4",
		Identity:  &checkpb.Identity{Caller: "0123456789abcdef0123456789abcdef", Session: "fedcba9876543210fedcba9876543210"},
		Model:     "gpt-5", Bundle: "default", InputTokens: 60,
		Counters: []*checkpb.Counter{{
			Policy: "default", Detector: "prompt", Fingerprint: fp[:], Window: checkpb.Window_WINDOW_SLIDING,
			WindowSeconds: 60, Threshold: 5, CooldownSeconds: 30,
			Steps: []*checkpb.Step{{At: 6, Action: checkpb.Action_ACTION_REJECT}},
		}},
	}
}

func fingerprintOf(round, i int) [sha256.Size]byte {
	var name [16]byte
	binary.BigEndian.PutUint64(name[:8], uint64(round))
	binary.BigEndian.PutUint64(name[8:], uint64(i))
	return sha256.Sum256(name[:])
}
