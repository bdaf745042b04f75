package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"

	"github.com/nats-io/nats.go"

	"github.com/unloop/unloop/deploy/unloop/cli"
	"github.com/unloop/unloop/detector"
	"github.com/unloop/unloop/schemas/kit/natskit"
	"github.com/unloop/unloop/schemas/kit/service"
)

// anyPort is the address at which a role listens.
const anyPort = "127.0.0.1:0"

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

// playCLI is unloop's own command line, as its binary runs it.
func playCLI(ctx context.Context, args []string) (string, func() error, error) {
	done := make(chan error, 1)
	go func() {
		var err error
		if code := cli.Main(args); code != 0 {
			err = fmt.Errorf("%w %d", errExit, code)
		}
		done <- err
	}()
	self, err := os.FindProcess(os.Getpid())
	if err != nil {
		return "", nil, fmt.Errorf("find own process: %w", err)
	}
	context.AfterFunc(ctx, func() { _ = self.Signal(os.Interrupt) }) // the command line goes by signals
	return "", func() error { return <-done }, nil
}

var errExit = errors.New("unloop ended with exit code")
