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
	// keys is the number of fingerprints that a round draws from. Each round has its own,
	// so that none reaches its threshold: a block would be answered from memory.
	keys = 100_000
	// echoSubject is the subject of the echo, the fastest possible answer.
	echoSubject = "bench.echo"
	// nameCheck is the name of a contender.
	nameCheck = "Unloop check over NATS"
)

// logErrors returns a logger for Unloop's services in this process that drops all but errors.
func logErrors() *slog.Logger {
	return slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelError}))
}

// checkTogether measures checks from the gateway's checker over NATS to a detector, its
// counters and back, with client, server and detector in this process.
func (b *bench) checkTogether(ctx context.Context) error {
	dir, err := os.MkdirTemp(b.dir, "store-")
	if err != nil {
		return fmt.Errorf("make a folder for a store: %w", err)
	}
	log := logErrors()
	server, err := natskit.StartEmbedded(natskit.EmbeddedConfig{Listen: "127.0.0.1:0", DataDir: dir}, log)
	if err != nil {
		return err
	}
	b.closing(server.Stop)
	nc, err := server.Connect("detector", log)
	if err != nil {
		return err
	}
	b.closing(nc.Close)
	inProcess := natskit.NewInProcess()
	det, err := detector.New(service.Deps{Log: log, Metrics: service.NewRegistry(), NATS: nc, InProcess: inProcess})
	if err != nil {
		return err
	}
	if err := b.runService(ctx, det); err != nil {
		return err
	}
	gw, err := b.gateway(ctx, nc, nil)
	if err != nil {
		return err
	}
	near, err := b.gateway(ctx, nc, inProcess)
	if err != nil {
		return err
	}
	return b.compareChecks(ctx, "one process (in-process connections, file storage)",
		func(name string) (*natskit.Conn, error) { return server.Connect(name, log) },
		checks(nameCheck, gw), checks("Unloop check, in process", near))
}

// checkApart measures the same with server and detector as processes of their own.
func (b *bench) checkApart(ctx context.Context) error {
	gw, url, err := b.fleet(ctx, 1)
	if err != nil {
		return err
	}
	return b.compareChecks(ctx, "three processes (client, NATS server and detector, over loopback)",
		func(name string) (*natskit.Conn, error) { return natskit.Connect(url, name, logErrors()) },
		checks(nameCheck, gw))
}

// compareChecks compares checks with a NATS echo, and with guards in Redis if that is
// installed.
func (b *bench) compareChecks(ctx context.Context, where string, dial func(name string) (*natskit.Conn, error), contenders ...measure.Contender) error {
	echo, err := b.echo(dial)
	if err != nil {
		return err
	}
	contenders = append([]measure.Contender{echo}, contenders...)
	if redis, err := b.startRedis(ctx); err != nil {
		fmt.Fprintf(b.out, "\nRedis is left out: %v\n", err)
	} else {
		contenders = append(contenders, guard("Redis guard, plain", redis.plain), guard("Redis guard, Lua", redis.lua))
	}
	return b.compareRates(ctx, "check path, "+where, contenders...)
}

// compareRates compares contenders with the first one.
func (b *bench) compareRates(ctx context.Context, title string, contenders ...measure.Contender) error {
	plan := b.plan
	plan.Calls *= 5
	res, err := measure.Compare(ctx, plan, contenders...)
	if err != nil {
		return err
	}
	b.show(res, contenders[0].Name, []measure.Figure{measure.Rate, measure.P50, measure.P99}, title)
	return nil
}

// gateway runs a gateway for its checks alone.
func (b *bench) gateway(ctx context.Context, nc *natskit.Conn, inProcess *natskit.InProcess) (*gateway.Gateway, error) {
	cfg := gateway.DefaultConfig()
	cfg.Listen, cfg.CheckTimeout = "127.0.0.1:0", patience
	gw, err := gateway.New(cfg, service.Deps{Log: logErrors(), Metrics: service.NewRegistry(), NATS: nc, InProcess: inProcess})
	if err != nil {
		return nil, err
	}
	return gw, b.runService(ctx, gw)
}

// runService starts a service in this process and waits until it is ready.
func (b *bench) runService(ctx context.Context, svc service.Service) error {
	service.TuneRuntime() // as its own process would
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan error, 1)
	go func() { done <- svc.Run(ctx) }()
	b.add(func() error { cancel(); return <-done })
	return svc.Readiness().Wait(ctx)
}

// echo answers messages of the size of a check with the same bytes, over another connection.
func (b *bench) echo(dial func(name string) (*natskit.Conn, error)) (c measure.Contender, err error) {
	var conns [2]*natskit.Conn // of client and server
	for i := range conns {
		if conns[i], err = dial("echo"); err != nil {
			return c, err
		}
		b.closing(conns[i].Close)
	}
	nc, server := conns[0].NATS(), conns[1].NATS()
	_, err = server.Subscribe(echoSubject, func(m *nats.Msg) { _ = m.Respond(m.Data) }) // the client misses an answer that fails
	if err := errors.Join(err, server.FlushTimeout(patience)); err != nil {
		return c, fmt.Errorf("start echo: %w", err)
	}
	body, err := proto.Marshal(&checkpb.CheckBatch{BudgetMs: 50, Checks: []*checkpb.Check{promptCheck([sha256.Size]byte{}, 0)}})
	op := func(context.Context) error {
		_, err := nc.Request(echoSubject, body, patience)
		return err
	}
	return measure.Contender{Name: "NATS echo", Caller: func(int, int) (measure.Op, func()) { return op, nil }}, err
}

// drawing calls op with random fingerprints, which differ between rounds and between contenders,
// and with one of the callers that share the detectors.
func drawing(name string, op func(ctx context.Context, fingerprint [sha256.Size]byte, of int) error) measure.Contender {
	return measure.Contender{Name: name, Caller: func(round, caller int) (measure.Op, func()) {
		draw := rand.New(rand.NewPCG(uint64(round), uint64(caller)))
		return func(ctx context.Context) error {
			return op(ctx, sha256.Sum256(fmt.Appendf(nil, "%s %d %d", name, round, draw.IntN(keys))), draw.IntN(manyCallers))
		}, nil
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
