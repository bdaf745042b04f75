// Command bench (`make bench`) measures Unloop side by side with other programs, and
// prints tables and whether the targets are reached.
//
// It runs the services in one process and in several, and does not know how they work
// inside.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/unloop/unloop/deploy/bench/measure"
	"github.com/unloop/unloop/deploy/bench/roles"
	"github.com/unloop/unloop/schemas/kit/natskit"
)

// bench is one run of the benchmark.
type bench struct {
	out io.Writer
	log *slog.Logger
	options
	// started is what the part that runs has started.
	started ender
	// dir is the folder for everything that the run writes.
	dir string
	// replays counts the replays of sessions, which differ in their marks.
	replays atomic.Uint32
}

// part is one of the things that can be measured.
type part struct {
	name, help string
	run        func(*bench, context.Context) error
}

var parts = []part{
	{"sessions-proxy", "real sessions of agents through the gateway, against a bare proxy", (*bench).sessions},
	{"sessions-apart", "the same, in one process against four", (*bench).apart},
	{"sessions-overload", "the same, at 64 and 256 in flight and at twice what Unloop can serve", (*bench).overload},
	{"stream", "streamed answers through the gateway, against a bare proxy", (*bench).stream},
	{"check", "the check path, in one process and in three, against a NATS echo and Redis", (*bench).check},
	{"gateway", "short prompts through the gateway, against the upstream alone and a bare proxy", (*bench).gateway},
	{"blocked", "requests of blocked loops, against a bare handler", (*bench).blocked},
	{"limit", "a token bucket at four times its rate, shared by three detectors", (*bench).limit},
	{"scale", "cost by live fingerprints, policies and length of history; memory, disk and restart with a million fingerprints", (*bench).scale},
	{"sizing", "what requests take of each process, and how the rate grows with detectors, measured and predicted", (*bench).sizing},
	{"modules", "the modules' own benchmarks: bodies, policies, embeddings", (*bench).modules},
}

// roots are the roles in which this executable is started.
var roots = map[string]roles.Role{
	"nats": {Args: 1, Start: natsRole}, "detector": {Args: 1, Start: detectorRole}, cliRole: {Args: roles.AnyArgs, Start: playCLI},
	"upstream": {Start: upstreamRole}, "streamer": {Start: streamerRole}, "proxy": {Args: 1, Start: proxyRole}, "refuser": {Start: refuserRole},
}

// run measures the parts that args name, all by default.
func run(ctx context.Context, args []string, out io.Writer) error {
	if len(args) > 0 && args[0] == roles.Command {
		return roles.Play(ctx, roots, args[1:])
	}
	b := &bench{out: out, log: slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelError}))}
	chosen, err := b.parse(args)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return nil
	case err != nil:
		return err
	}
	if b.dir, err = os.MkdirTemp("", "unloop-bench-"); err != nil {
		return fmt.Errorf("make a folder for stores: %w", err)
	}
	fmt.Fprintf(out, "%s, %s/%s, %d CPUs; medians of %d interleaved rounds of %s\n",
		runtime.Version(), runtime.GOOS, runtime.GOARCH, runtime.NumCPU(), b.plan.Rounds, b.plan.Sample)
	stop, err := roles.StartProfile(b.profile, "bench")
	if err == nil {
		err = errors.Join(b.run(ctx, chosen), stop())
	}
	return errors.Join(err, os.RemoveAll(b.dir))
}

// run measures each part; after an error it goes on with the next.
func (b *bench) run(ctx context.Context, chosen []part) error {
	var broken []error
	for _, p := range chosen {
		started := time.Now()
		err := p.run(b, ctx)
		err, b.started = errors.Join(err, b.started.end()), nil
		if err != nil {
			broken = append(broken, fmt.Errorf("%s: %w", p.name, err))
			fmt.Fprintf(b.out, "\n%s broke off: %v\n", p.name, err)
		}
		fmt.Fprintf(b.out, "(%s took %s)\n", p.name, time.Since(started).Round(time.Second))
		if ctx.Err() != nil {
			break
		}
	}
	return errors.Join(broken...)
}

// print prints a table.
func (b *bench) print(t *measure.Table) {
	if b.markdown {
		t.Markdown(b.out)
		return
	}
	t.Print(b.out)
}

// printRates prints the rates of contenders.
func (b *bench) printRates(res *measure.Results) {
	b.print(res.Rates())
	if n := res.Failed(); n > 0 {
		fmt.Fprintf(b.out, "%d operations failed and do not count.\n", n)
	}
}

// title prints the title of a table.
func (b *bench) title(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	fmt.Fprintf(b.out, "\n%s\n%s\n", text, strings.Repeat("-", len([]rune(text))))
}

// store makes a folder for the store of a server.
func (b *bench) store() (string, error) {
	dir, err := os.MkdirTemp(b.dir, "store-")
	if err != nil {
		return "", fmt.Errorf("make a folder for a store: %w", err)
	}
	return dir, nil
}

// ender is a list of functions that end what was started, called in reverse order.
type ender []func() error

func (e *ender) add(f func() error) { *e = append(*e, f) }

// role starts this executable in a role.
func (e *ender) role(ctx context.Context, name string, args ...string) (*roles.Process, error) {
	p, err := roles.Start(ctx, name, args...)
	if err == nil {
		e.add(p.Stop)
	}
	return p, err
}

// server starts a NATS server in this process.
func (b *bench) server(e *ender) (*natskit.Embedded, error) {
	dir, err := b.store()
	if err != nil {
		return nil, err
	}
	server, err := natskit.StartEmbedded(natskit.EmbeddedConfig{Listen: anyPort, DataDir: dir}, b.log)
	if err != nil {
		return nil, err
	}
	e.add(func() error { server.Stop(); return nil })
	return server, nil
}

func (e ender) end() error {
	var errs []error
	for _, f := range slices.Backward(e) {
		errs = append(errs, f())
	}
	return errors.Join(errs...)
}
