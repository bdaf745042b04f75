package main

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"

	"github.com/nats-io/nats.go"
	"google.golang.org/protobuf/proto"

	"github.com/unloop/unloop/deploy/bench/measure"
	"github.com/unloop/unloop/detector"
	"github.com/unloop/unloop/gateway"
	"github.com/unloop/unloop/schemas/checkpb"
	"github.com/unloop/unloop/schemas/kit/natskit"
	"github.com/unloop/unloop/schemas/kit/service"
)

const (
	// keys is the number of fingerprints that a round draws from. Each round has other
	// ones, so that none reaches its threshold: a block would be answered from memory.
	keys = 100_000
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

// logErrors returns the log of parts of Unloop in this process, which has errors only.
func logErrors() *slog.Logger {
	return slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelError}))
}

// connect connects a part to a NATS server.
type connect func(name string) (*natskit.Conn, error)

// check measures checks from the gateway's checker over NATS to a detector, its counters
// and back.
func (b *bench) check(ctx context.Context) error {
	redis, err := startRedis(ctx)
	if err != nil {
		fmt.Fprintf(b.out, "\nRedis is left out: %v\n", err)
	} else {
		b.add(redis.stop)
	}
	return errors.Join(b.checkTogether(ctx, redis), b.checkApart(ctx, redis))
}

// checkTogether runs client, server and detector in this process.
func (b *bench) checkTogether(ctx context.Context, redis *redisServer) (err error) {
	var g group
	defer func() { err = errors.Join(err, g.end()) }()
	dir, err := os.MkdirTemp(b.dir, "store-")
	if err != nil {
		return fmt.Errorf("make a folder for a store: %w", err)
	}
	log := logErrors()
	server, err := natskit.StartEmbedded(natskit.EmbeddedConfig{Listen: "127.0.0.1:0", DataDir: dir}, log)
	if err != nil {
		return err
	}
	g.add(func() error { server.Stop(); return nil })
	nc, err := server.Connect("detector", log)
	if err != nil {
		return err
	}
	g.add(func() error { nc.Close(); return nil })
	inProcess := natskit.NewInProcess()
	det, err := detector.New(service.Deps{Log: log, Metrics: service.NewRegistry(), NATS: nc, InProcess: inProcess})
	if err != nil {
		return err
	}
	if err := g.run(ctx, det); err != nil {
		return err
	}
	return b.compareChecks(ctx, func(name string) (*natskit.Conn, error) { return server.Connect(name, log) }, inProcess, redis,
		"one process (in-process connections, file storage)")
}

// checkApart runs server and detector as processes of their own.
func (b *bench) checkApart(ctx context.Context, redis *redisServer) error {
	in := &instance{}
	if err := b.startNATS(ctx, &b.group, unloop{}, in, "nats"); err != nil {
		return err
	}
	if err := b.launch(ctx, &b.group, unloop{}, in, "detector", "--nats", in.nats); err != nil {
		return err
	}
	return b.compareChecks(ctx, func(name string) (*natskit.Conn, error) { return natskit.Connect(in.nats, name, logErrors()) }, nil, redis,
		"three processes (client, NATS server and detector, over loopback)")
}

// compareChecks measures checks over NATS and, if inProcess is not nil, those of a
// gateway and a detector that share a process.
func (b *bench) compareChecks(ctx context.Context, to connect, inProcess *natskit.InProcess, redis *redisServer, where string) (err error) {
	var g group
	defer func() { err = errors.Join(err, g.end()) }()
	client, err := to("bench")
	if err != nil {
		return err
	}
	g.add(func() error { client.Close(); return nil })
	echo, err := g.echo(client.NATS(), to)
	if err != nil {
		return err
	}
	gw, err := g.gateway(ctx, client, nil)
	if err != nil {
		return err
	}
	contenders := []measure.Contender{echo, checkContender(nameCheck, gw)}
	if inProcess != nil {
		near, err := g.gateway(ctx, client, inProcess)
		if err != nil {
			return err
		}
		contenders = append(contenders, checkContender(nameNear, near))
	}
	if redis != nil {
		contenders = append(contenders, redis.contender(namePlain, redis.plain), redis.contender(nameLua, redis.lua))
	}
	res, err := measure.Compare(ctx, b.plan, contenders...)
	if err != nil {
		return err
	}
	b.print(res.Table(nameEcho, []measure.Figure{measure.Rate, measure.P50, measure.P99}), "check path, %s", where)
	return nil
}

// gateway runs a gateway on a connection; only its checks are used.
func (g *group) gateway(ctx context.Context, nc *natskit.Conn, inProcess *natskit.InProcess) (*gateway.Gateway, error) {
	cfg := gateway.DefaultConfig()
	cfg.Listen, cfg.CheckTimeout = "127.0.0.1:0", patience
	gw, err := gateway.New(cfg, service.Deps{Log: logErrors(), Metrics: service.NewRegistry(), NATS: nc, InProcess: inProcess})
	if err != nil {
		return nil, err
	}
	return gw, g.run(ctx, gw)
}

// run starts a service and waits until it is ready.
func (g *group) run(ctx context.Context, svc service.Service) error {
	service.TuneRuntime() // as where it runs by itself
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan error, 1)
	go func() { done <- svc.Run(ctx) }()
	g.add(func() error { cancel(); return <-done })
	return svc.Readiness().Wait(ctx)
}

// echo answers messages of the size of a check, which come back unchanged over another
// connection.
func (g *group) echo(nc *nats.Conn, to connect) (c measure.Contender, err error) {
	server, err := to("echo")
	if err != nil {
		return c, err
	}
	g.add(func() error { server.Close(); return nil })
	if _, err := server.NATS().Subscribe(echoSubject, func(m *nats.Msg) { _ = m.Respond(m.Data) }); err != nil { // whoever asked sees it missing
		return c, fmt.Errorf("start echo: %w", err)
	}
	if err := server.NATS().FlushTimeout(patience); err != nil {
		return c, fmt.Errorf("start echo: %w", err)
	}
	body, err := proto.Marshal(&checkpb.CheckBatch{BudgetMs: 50, Checks: []*checkpb.Check{promptCheck(0, 0)}})
	op := func(context.Context) error {
		_, err := nc.Request(echoSubject, body, patience)
		return err
	}
	return measure.Contender{Name: nameEcho, Caller: func(int, int) (measure.Op, func(), error) { return op, func() {}, nil }}, err
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
