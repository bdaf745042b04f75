package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"

	"github.com/nats-io/nats.go"

	"github.com/unloop/unloop/deploy/unloop/system"
	"github.com/unloop/unloop/detector"
	"github.com/unloop/unloop/schemas/kit/natskit"
	"github.com/unloop/unloop/schemas/kit/service"
)

// anyPort is the address at which a role listens.
const anyPort = system.FreePort

// quiet returns the log of roles, which has errors only.
func quiet() *slog.Logger {
	return slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelError}))
}

// natsRole is a NATS server that stores in the folder it is given.
func natsRole(_ context.Context, args []string) (string, func() error, error) {
	service.Headroom()
	server, err := natskit.StartEmbedded(natskit.EmbeddedConfig{Listen: anyPort, DataDir: args[0]}, quiet())
	if err != nil {
		return "", nil, err
	}
	return server.URL(), func() error { server.Stop(); return nil }, nil
}

// detectorRole is a detector on the server it is given.
func detectorRole(ctx context.Context, args []string) (string, func() error, error) {
	log := quiet()
	stop, err := startDetector(ctx, func(name string) (*natskit.Conn, error) { return natskit.Connect(args[0], name, log) }, nil, log)
	return args[0], stop, err
}

// startDetector runs a detector and, on another connection, the echo.
func startDetector(ctx context.Context, connect func(string) (*natskit.Conn, error), inProcess *natskit.InProcess, log *slog.Logger) (func() error, error) {
	nc, err := connect("detector")
	if err != nil {
		return nil, err
	}
	service.Headroom() // as where it runs by itself
	det, err := detector.New(detector.DefaultConfig(), service.Deps{Log: log, Metrics: service.NewRegistry(), NATS: nc, InProcess: inProcess})
	if err != nil {
		return nil, err
	}
	stop, err := runUntilReady(ctx, det)
	if err != nil {
		return nil, err
	}
	echo, err := connect("echo")
	if err == nil {
		_, err = echo.NATS().Subscribe(echoSubject, func(m *nats.Msg) { _ = m.Respond(m.Data) }) // whoever asked sees it missing
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("start echo: %w", err), stop())
	}
	return func() error {
		err := stop()
		echo.Close()
		nc.Close()
		return err
	}, nil
}

// systemRole is all of Unloop in one process, as `unloop up` runs it, with the
// store, the upstream and, if it is not empty, the policies it is given.
func systemRole(ctx context.Context, args []string) (string, func() error, error) {
	cfg := system.DefaultConfig()
	cfg.Embedded = natskit.EmbeddedConfig{Listen: anyPort, DataDir: args[0]}
	cfg.Gateway.CheckTimeout = patience
	cfg.Gateway.Upstream, cfg.Gateway.Policies = map[string]string{"openai": args[1]}, args[2]
	s, err := system.New(cfg, quiet())
	if err != nil {
		return "", nil, err
	}
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	return s.URL(), func() error { return <-done }, s.Wait(ctx)
}
