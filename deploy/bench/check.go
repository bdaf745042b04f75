package main

import (
	"context"
	"crypto/sha256"
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
	// manyCallers is how many callers share the detectors.
	manyCallers = 100
	// keys is the number of fingerprints that a round draws from. Each round has other
	// ones, so that none reaches its threshold: a block would be answered from memory.
	keys = 100_000
	// echoSubject is the subject of the echo, the fastest possible answer.
	echoSubject = "bench.echo"
)

// nameEcho is the name of a contender.
const nameEcho = "NATS echo"

// logErrors returns the log of parts of Unloop in this process, which has errors only.
func logErrors() *slog.Logger {
	return slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelError}))
}

// connect connects a part to a NATS server.
type connect func(name string) (*natskit.Conn, error)

// check measures checks from the gateway's checker over NATS to a detector, its counters
// and back.
func (b *bench) check(ctx context.Context) error {
	var guards []measure.Contender
	if redis, err := b.startRedis(ctx); err != nil {
		fmt.Fprintf(b.out, "\nRedis is left out: %v\n", err)
	} else {
		guards = append(guards, guard("Redis guard, plain", redis.plain), guard("Redis guard, Lua", redis.lua))
	}
	return errors.Join(b.checkTogether(ctx, guards), b.checkApart(ctx, guards))
}

// checkTogether runs client, server and detector in this process.
func (b *bench) checkTogether(ctx context.Context, guards []measure.Contender) (err error) {
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
	g.closing(server.Stop)
	nc, err := server.Connect("detector", log)
	if err != nil {
		return err
	}
	g.closing(nc.Close)
	inProcess := natskit.NewInProcess()
	det, err := detector.New(service.Deps{Log: log, Metrics: service.NewRegistry(), NATS: nc, InProcess: inProcess})
	if err != nil {
		return err
	}
	if err := g.run(ctx, det); err != nil {
		return err
	}
	return b.compareChecks(ctx, func(name string) (*natskit.Conn, error) { return server.Connect(name, log) }, inProcess, guards,
		"one process (in-process connections, file storage)")
}

// checkApart runs server and detector as processes of their own.
func (b *bench) checkApart(ctx context.Context, guards []measure.Contender) error {
	in := &instance{}
	if err := b.startNATS(ctx, &b.group, unloop{}, in, "nats"); err != nil {
		return err
	}
	if err := b.launch(ctx, &b.group, unloop{}, in, "detector", "--nats", in.nats); err != nil {
		return err
	}
	return b.compareChecks(ctx, func(name string) (*natskit.Conn, error) { return natskit.Connect(in.nats, name, logErrors()) }, nil, guards,
		"three processes (client, NATS server and detector, over loopback)")
}

// compareChecks measures checks over NATS and, if inProcess is not nil, those of a
// gateway and a detector that share a process.
func (b *bench) compareChecks(ctx context.Context, to connect, inProcess *natskit.InProcess, guards []measure.Contender, where string) (err error) {
	var g group
	defer func() { err = errors.Join(err, g.end()) }()
	client, err := to("bench")
	if err != nil {
		return err
	}
	g.closing(client.Close)
	echo, err := g.echo(client.NATS(), to)
	if err != nil {
		return err
	}
	gw, err := g.gateway(ctx, client, nil)
	if err != nil {
		return err
	}
	contenders := []measure.Contender{echo, checks("Unloop check over NATS", gw)}
	if inProcess != nil {
		near, err := g.gateway(ctx, client, inProcess)
		if err != nil {
			return err
		}
		contenders = append(contenders, checks("Unloop check, in process", near))
	}
	return b.compareRates(ctx, "check path, "+where, append(contenders, guards...)...)
}

// compareRates compares contenders with the first one.
func (b *bench) compareRates(ctx context.Context, title string, contenders ...measure.Contender) error {
	res, err := measure.Compare(ctx, b.plan, contenders...)
	if err != nil {
		return err
	}
	b.show(res, contenders[0].Name, []measure.Figure{measure.Rate, measure.P50, measure.P99}, title)
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
	g.closing(server.Close)
	if _, err := server.NATS().Subscribe(echoSubject, func(m *nats.Msg) { _ = m.Respond(m.Data) }); err != nil { // whoever asked sees it missing
		return c, fmt.Errorf("start echo: %w", err)
	}
	if err := server.NATS().FlushTimeout(patience); err != nil {
		return c, fmt.Errorf("start echo: %w", err)
	}
	body, err := proto.Marshal(&checkpb.CheckBatch{BudgetMs: 50, Checks: []*checkpb.Check{promptCheck([sha256.Size]byte{}, 0)}})
	op := func(context.Context) error {
		_, err := nc.Request(echoSubject, body, patience)
		return err
	}
	return measure.Contender{Name: nameEcho, Caller: func(int, int) (measure.Op, func(), error) { return op, nil, nil }}, err
}

// drawing calls op with fingerprints, in each round other ones, and one of the callers that
// share the detectors. Each contender has fingerprints of its own.
func drawing(name string, op func(ctx context.Context, fingerprint [sha256.Size]byte, of int) error) measure.Contender {
	return measure.Contender{Name: name, Caller: func(round, caller int) (measure.Op, func(), error) {
		draw := rand.New(rand.NewPCG(uint64(round), uint64(caller)))
		return func(ctx context.Context) error {
			return op(ctx, sha256.Sum256(fmt.Appendf(nil, "%s %d %d", name, round, draw.IntN(keys))), draw.IntN(manyCallers))
		}, nil, nil
	}}
}

// checks checks prompts of many callers through a gateway.
func checks(name string, gw *gateway.Gateway) measure.Contender {
	return drawing(name, func(ctx context.Context, fingerprint [sha256.Size]byte, of int) error {
		_, err := gw.Check(ctx, promptCheck(fingerprint, of))
		return err
	})
}

// promptCheck returns the check of a caller's prompt by the default policy.
func promptCheck(fingerprint [sha256.Size]byte, of int) *checkpb.Check {
	return &checkpb.Check{
		RequestId: "MTkzNDU2Nzg5MDEyMzQ1Njc4",
		Identity:  &checkpb.Identity{Caller: fmt.Sprintf("%032x", of), Session: "fedcba9876543210fedcba9876543210"},
		Model:     "gpt-5", Bundle: "default", InputTokens: 60,
		Counters: []*checkpb.Counter{{
			Policy: "default", Detector: "prompt", Fingerprint: fingerprint[:], Window: checkpb.Window_WINDOW_SLIDING,
			WindowSeconds: 60, Threshold: 5, CooldownSeconds: 30,
			Steps: []*checkpb.Step{{At: 6, Action: checkpb.Action_ACTION_REJECT}},
		}},
	}
}
