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
	"time"

	"github.com/unloop/unloop/deploy/bench/measure"
	"github.com/unloop/unloop/deploy/bench/roles"
	"github.com/unloop/unloop/schemas/kit/natskit"
)

// session is one run of the benchmark.
type session struct {
	out    io.Writer
	log    *slog.Logger
	plan   measure.Plan
	dir    string
	state  int
	module string
	// profile is the folder for CPU profiles; none are taken if it is empty.
	profile string
}

// part is one of the things that can be measured.
type part struct {
	name, help string
	run        func(*session, context.Context) error
}

var parts = []part{
	{"check", "the check path, in one process and in three, against a NATS echo and Redis", (*session).check},
	{"gateway", "requests through the gateway, against the upstream alone and a bare proxy", (*session).gateway},
	{"blocked", "requests of blocked loops, against a bare handler", (*session).blocked},
	{"limit", "a token bucket at four times its rate, shared by three detectors", (*session).limit},
	{"state", "a million live fingerprints: memory, disk, restart", (*session).millions},
	{"modules", "the modules' own benchmarks: bodies, policies, embeddings", (*session).modules},
}

// roots are the roles in which this executable is started.
var roots = map[string]roles.Role{
	"nats": {Args: 1, Start: natsRole}, "detector": {Args: 1, Start: detectorRole}, "system": {Args: 3, Start: systemRole},
	"upstream": {Start: upstreamRole}, "proxy": {Args: 1, Start: proxyRole}, "refuser": {Start: refuserRole},
}

// run measures the parts that args name, all by default.
func run(ctx context.Context, args []string, out io.Writer) error {
	if len(args) > 0 && args[0] == roles.Command {
		return roles.Play(ctx, roots, args[1:])
	}
	s := &session{out: out, log: slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelError}))}
	chosen, err := s.parse(args)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return nil
	case err != nil:
		return err
	}
	if s.dir, err = os.MkdirTemp("", "unloop-bench-"); err != nil {
		return fmt.Errorf("make a folder for stores: %w", err)
	}
	fmt.Fprintf(out, "%s, %s/%s, %d CPUs; medians of %d interleaved rounds of %s\n",
		runtime.Version(), runtime.GOOS, runtime.GOARCH, runtime.NumCPU(), s.plan.Rounds, s.plan.Sample)
	stop, err := roles.StartProfile(s.profile, "bench")
	if err == nil {
		err = errors.Join(s.run(ctx, chosen), stop())
	}
	return errors.Join(err, os.RemoveAll(s.dir))
}

func (s *session) parse(args []string) ([]part, error) {
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	flags.IntVar(&s.plan.Rounds, "rounds", 5, "rounds that count")
	flags.DurationVar(&s.plan.Sample, "sample", 500*time.Millisecond, "time for each contender at each level in a round")
	flags.IntVar(&s.state, "fingerprints", 1_000_000, "live fingerprints of part state")
	flags.StringVar(&s.module, "root", "..", "folder with the modules")
	flags.StringVar(&s.profile, "profile", "", "folder for profiles of each process, to read with go tool pprof")
	flags.Usage = func() {
		fmt.Fprintln(flags.Output(), "bench [flags] [part…]")
		for _, p := range parts {
			fmt.Fprintf(flags.Output(), "  %-8s  %s\n", p.name, p.help)
		}
		flags.PrintDefaults()
	}
	if err := flags.Parse(args); err != nil {
		return nil, err
	}
	s.plan.Rounds, s.plan.Levels = max(s.plan.Rounds, 1), levels
	return choose(flags.Args())
}

var levels = []int{1, 8, 64}

func choose(names []string) ([]part, error) {
	if len(names) == 0 {
		return parts, nil
	}
	var chosen []part
	for _, name := range names {
		i := slices.IndexFunc(parts, func(p part) bool { return p.name == name })
		if i < 0 {
			return nil, fmt.Errorf("there is no part %q; see --help", name)
		}
		chosen = append(chosen, parts[i])
	}
	return chosen, nil
}

// run measures each part; after an error it goes on with the next.
func (s *session) run(ctx context.Context, chosen []part) error {
	var broken []error
	for _, p := range chosen {
		started := time.Now()
		if err := p.run(s, ctx); err != nil {
			broken = append(broken, fmt.Errorf("%s: %w", p.name, err))
			fmt.Fprintf(s.out, "\n%s broke off: %v\n", p.name, err)
		}
		fmt.Fprintf(s.out, "(%s took %s)\n", p.name, time.Since(started).Round(time.Second))
		if ctx.Err() != nil {
			break
		}
	}
	return errors.Join(broken...)
}

// title prints the title of a table.
func (s *session) title(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	fmt.Fprintf(s.out, "\n%s\n%s\n", text, strings.Repeat("-", len([]rune(text))))
}

// store makes a folder for the store of a server.
func (s *session) store() (string, error) {
	dir, err := os.MkdirTemp(s.dir, "store-")
	if err != nil {
		return "", fmt.Errorf("make a folder for a store: %w", err)
	}
	return dir, nil
}

// ender is a list of functions that end what was started, called in reverse order.
type ender []func() error

func (e *ender) add(f func() error) { *e = append(*e, f) }

// role starts this executable in a role and returns its address.
func (e *ender) role(ctx context.Context, name string, args ...string) (addr string, err error) {
	p, err := roles.Start(ctx, name, args...)
	if err != nil {
		return "", err
	}
	e.add(p.Stop)
	return p.Addr, nil
}

// server starts a NATS server in this process.
func (s *session) server(e *ender) (*natskit.Embedded, error) {
	dir, err := s.store()
	if err != nil {
		return nil, err
	}
	server, err := natskit.StartEmbedded(natskit.EmbeddedConfig{Listen: anyPort, DataDir: dir}, s.log)
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
