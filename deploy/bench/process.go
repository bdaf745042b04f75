package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/unloop/unloop/deploy/bench/measure"
	"github.com/unloop/unloop/deploy/bench/usage"
	"github.com/unloop/unloop/schemas/kit/freeport"
	"github.com/unloop/unloop/schemas/kit/pause"
)

// patience bounds what takes no time on a machine that has some.
const patience = 5 * time.Second

// group has the functions that stop started processes.
type group struct{ ends []func() error }

func (g *group) add(end func() error) { g.ends = append(g.ends, end) }

// end calls the functions in reverse order.
func (g *group) end() error {
	var errs []error
	for _, end := range slices.Backward(g.ends) {
		errs = append(errs, end())
	}
	g.ends = nil
	return errors.Join(errs...)
}

// program is a program with its arguments and additional environment.
type program struct {
	// file is this executable if it is empty.
	file      string
	args, env []string
}

// start runs a program and waits until it answers at a URL.
func (g *group) start(ctx context.Context, p program, ready string) (pid int, err error) {
	if pid, err = g.spawn(ctx, p); err != nil {
		return 0, err
	}
	return pid, await(ctx, strings.Join(p.args, " "), func(ctx context.Context) error { return answers(ctx, ready) })
}

// spawn runs a program.
func (g *group) spawn(ctx context.Context, p program) (pid int, err error) {
	file := p.file
	if file == "" {
		if file, err = os.Executable(); err != nil {
			return 0, fmt.Errorf("find own executable: %w", err)
		}
	}
	running, stop := context.WithCancel(ctx)
	cmd := exec.CommandContext(running, file, p.args...)
	cmd.Env, cmd.Stderr = append(os.Environ(), p.env...), os.Stderr
	cmd.Cancel, cmd.WaitDelay = func() error { return cmd.Process.Signal(os.Interrupt) }, 30*time.Second
	if err := cmd.Start(); err != nil {
		stop()
		return 0, fmt.Errorf("start %s: %w", file, err)
	}
	g.add(func() error {
		stop()
		if err := cmd.Wait(); err != nil && !errors.Is(err, context.Canceled) {
			return fmt.Errorf("stop %q: %w", p.args, err)
		}
		return nil
	})
	return cmd.Process.Pid, nil
}

// await calls up every few milliseconds until it succeeds.
func await(ctx context.Context, what string, up func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	for err := up(ctx); err != nil; err = up(ctx) {
		if pause.For(ctx, 20*time.Millisecond) != nil {
			return fmt.Errorf("wait for %s: %w", what, err)
		}
	}
	return nil
}

func answers(ctx context.Context, url string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return fmt.Errorf("ask for readiness: %w", err)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		return fmt.Errorf("%w: status %d of %s", errAnswer, res.StatusCode, url)
	}
	return nil
}

// instance is what is measured: Unloop in one process or several, or a bare proxy.
type instance struct {
	url       string
	processes []process
	// nats is the address of its NATS server, with the token; "" if it has none.
	nats string
}

type process struct {
	name    string
	pid     int
	metrics string // their address; "" for none
}

// unloop is an executable of Unloop and the flags for its gateway.
type unloop struct {
	// binary is its file; "" is the code that this benchmark was built with.
	binary string
	// policies is a bundle in YAML; "" is the default policy.
	policies   string
	flags, env []string
}

// patient are flags with which a pause of the machine does not count as a failure.
var patient = []string{"--check-timeout", patience.String()}

// launch starts a command of unloop.
func (b *bench) launch(ctx context.Context, g *group, u unloop, in *instance, args ...string) error {
	admin, err := freeport.Addr()
	if err != nil {
		return err
	}
	// Loops are refused with 429 however often they come.
	p := program{u.binary, append(slices.Clone(args), "--admin", admin, "--log-level", "error"), append(u.env, "XDG_RUNTIME_DIR="+b.dir, "UNLOOP_REJECT=429")}
	if p.file == "" {
		p.args = append([]string{unloopRole}, p.args...)
	}
	pid, err := g.start(ctx, p, "http://"+admin+"/readyz")
	in.processes = append(in.processes, process{args[0], pid, "http://" + admin + "/metrics"})
	return err
}

// startNATS starts what has the NATS server of an instance.
func (b *bench) startNATS(ctx context.Context, g *group, u unloop, in *instance, command string, flags ...string) error {
	store, err := os.MkdirTemp(b.dir, "store-")
	if err != nil {
		return fmt.Errorf("make a folder for a store: %w", err)
	}
	addr, err := freeport.Addr()
	if err != nil {
		return err
	}
	if err := b.launch(ctx, g, u, in, append([]string{command, "--nats-listen", addr, "--data-dir", store}, flags...)...); err != nil {
		return err
	}
	token, err := os.ReadFile(filepath.Join(store, "nats.token"))
	if err != nil {
		return fmt.Errorf("read the token of NATS: %w", err)
	}
	in.nats = "nats://" + strings.TrimSpace(string(token)) + "@" + addr
	return nil
}

// startUp starts Unloop in one process, with its store in files.
func (b *bench) startUp(ctx context.Context, g *group, u unloop, upstream string) (*instance, error) {
	in, flags, err := b.gateway(u, upstream)
	if err != nil {
		return nil, err
	}
	return in, b.startNATS(ctx, g, u, in, "up", append(flags, "--embedder", "lexical")...)
}

// startApart starts Unloop as a NATS server, a detector, an embedding worker and a
// gateway, each a process of its own.
func (b *bench) startApart(ctx context.Context, g *group, u unloop, upstream string) (*instance, error) {
	in, flags, err := b.gateway(u, upstream)
	if err != nil {
		return nil, err
	}
	if err := b.startNATS(ctx, g, u, in, "nats"); err != nil {
		return nil, err
	}
	for _, args := range [][]string{{"embedworker", "--embedder", "lexical"}, {"detector"}, append([]string{"gateway"}, flags...)} {
		if err := b.launch(ctx, g, u, in, append(args, "--nats", in.nats)...); err != nil {
			return nil, err
		}
	}
	return in, nil
}

// gateway returns an instance and the flags for its gateway.
func (b *bench) gateway(u unloop, upstream string) (*instance, []string, error) {
	addr, err := freeport.Addr()
	if err != nil {
		return nil, nil, err
	}
	flags := append([]string{"--listen", addr, "--upstream", "openai=" + upstream}, u.flags...)
	if u.policies != "" {
		file := filepath.Join(b.dir, "policies.yaml")
		if err := os.WriteFile(file, []byte(u.policies), 0o600); err != nil {
			return nil, nil, fmt.Errorf("write policies: %w", err)
		}
		flags = append(flags, "--policies", file)
	}
	return &instance{url: "http://" + addr}, flags, nil
}

// Names of the figures that an instance reads; that of a process's processor time ends
// with the process's name.
const (
	figureProcessor   = "processor"   // ms
	figureAllocations = "allocations" // objects
	figureAllocated   = "allocated"   // bytes
)

// read is the meter of an instance.
func (in *instance) read(ctx context.Context) (measure.Reading, error) {
	out := measure.Reading{}
	for _, p := range in.processes {
		took, err := usage.Processor(p.pid)
		if err != nil {
			return nil, err
		}
		out[figureProcessor] += took.Seconds() * 1000
		out[figureProcessor+p.name] += took.Seconds() * 1000
		if p.metrics == "" {
			continue
		}
		m, err := usage.Metrics(ctx, p.metrics, usage.Allocations, usage.AllocatedBytes)
		if err != nil {
			return nil, err
		}
		out[figureAllocations] += m[usage.Allocations]
		out[figureAllocated] += m[usage.AllocatedBytes]
	}
	return out, nil
}
