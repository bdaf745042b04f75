package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
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

// closing adds a function that can't fail.
func (g *group) closing(end func()) { g.add(func() error { end(); return nil }) }

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

func (p program) command(ctx context.Context) (*exec.Cmd, error) {
	if p.file == "" {
		own, err := os.Executable()
		if err != nil {
			return nil, fmt.Errorf("find own executable: %w", err)
		}
		p.file = own
	}
	cmd := exec.CommandContext(ctx, p.file, p.args...)
	cmd.Env, cmd.Stderr = append(os.Environ(), p.env...), os.Stderr
	return cmd, nil
}

// start runs a program until the group ends.
func (g *group) start(ctx context.Context, p program) (pid int, err error) {
	running, stop := context.WithCancel(ctx)
	cmd, err := p.command(running)
	if err == nil {
		cmd.Cancel, cmd.WaitDelay = func() error { return cmd.Process.Signal(os.Interrupt) }, 30*time.Second
		err = cmd.Start()
	}
	if err != nil {
		stop()
		return 0, fmt.Errorf("start %q: %w", p.args, err)
	}
	g.add(func() error {
		stop()
		err := cmd.Wait()
		state, known := cmd.ProcessState.Sys().(syscall.WaitStatus)
		interrupted := known && state.Signaled() && state.Signal() == syscall.SIGINT
		if err != nil && !interrupted && !errors.Is(err, context.Canceled) {
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
	name, url string
	processes []process
	// nats is the address of its NATS server, with the token; "" if it has none.
	nats string
	// header is what requests have beside what all have.
	header map[string]string
}

// process is a part of an instance; several of one kind have names such as nats-1.
type process struct {
	name    string
	pid     int
	metrics string // their address; "" for none
}

// startProcess starts a program as a part of an instance, and waits until it answers at a URL.
func (g *group) startProcess(ctx context.Context, in *instance, name string, p program, ready, metrics string) error {
	pid, err := g.start(ctx, p)
	if err != nil {
		return err
	}
	in.processes = append(in.processes, process{name, pid, metrics})
	return await(ctx, name, func(ctx context.Context) error { return answers(ctx, ready) })
}

// unloop is an executable of Unloop and how its gateway runs.
type unloop struct {
	// name is that of the contender.
	name string
	// binary is its file; "" is the code that this benchmark was built with.
	binary string
	// policies is a bundle in YAML; "" is the default policy.
	policies string
	// embedder is the embedder of its worker; "" is lexical.
	embedder   string
	flags, env []string
}

// patient are flags with which a pause of the machine does not count as a failure.
var patient = []string{"--check-timeout", patience.String()}

// command returns a command of unloop.
func (u unloop) command(args ...string) program {
	if u.binary == "" {
		args = append([]string{unloopRole}, args...)
	}
	return program{u.binary, args, u.env}
}

// launch starts a service of unloop.
func (b *bench) launch(ctx context.Context, g *group, u unloop, in *instance, args ...string) error {
	admin, err := freeport.Addr()
	if err != nil {
		return err
	}
	p := u.command(append(slices.Clone(args), "--admin", admin, "--log-level", "error")...)
	// Loops are refused with 429 however often they come.
	p.env = append(slices.Clone(p.env), "XDG_RUNTIME_DIR="+b.dir, "UNLOOP_REJECT=429")
	return g.startProcess(ctx, in, args[0], p, "http://"+admin+"/readyz", "http://"+admin+"/metrics")
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

// gateway returns an instance and the flags for its gateway.
func (b *bench) gateway(u unloop, upstream *instance) (*instance, []string, error) {
	addr, err := freeport.Addr()
	if err != nil {
		return nil, nil, err
	}
	flags := append([]string{"--listen", addr, "--upstream", "openai=" + upstream.url}, u.flags...)
	if u.policies != "" {
		file := filepath.Join(b.dir, "policies.yaml")
		if err := os.WriteFile(file, []byte(u.policies), 0o600); err != nil {
			return nil, nil, fmt.Errorf("write policies: %w", err)
		}
		flags = append(flags, "--policies", file)
	}
	return &instance{name: u.name, url: "http://" + addr}, flags, nil
}

// lineUp starts an upstream and, in front of it, a bare proxy and each kind of Unloop of each
// binary, in one process with its store in files.
func (b *bench) lineUp(ctx context.Context, g *group, kinds ...unloop) (upstream *instance, all []*instance, err error) {
	if upstream, err = startRole(ctx, g, originRole); err != nil {
		return nil, nil, err
	}
	proxy, err := startRole(ctx, g, proxyRole, upstream.url)
	if err != nil {
		return nil, nil, err
	}
	proxy.name = nameProxy
	all = []*instance{proxy}
	for _, rival := range b.rivals() {
		for _, u := range kinds {
			u.name, u.binary = u.name+rival.suffix, rival.binary
			in, flags, err := b.gateway(u, upstream)
			if err != nil {
				return nil, nil, err
			}
			if err := b.startNATS(ctx, g, u, in, "up", append(flags, "--embedder", cmp.Or(u.embedder, "lexical"))...); err != nil {
				return nil, nil, err
			}
			all = append(all, in)
		}
	}
	return upstream, all, nil
}

// Names of the figures that an instance reads; that of a process's processor time ends
// with the process's name or its kind.
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
		kind, number, _ := strings.Cut(p.name, "-")
		for _, of := range []string{"", kind} {
			out[figureProcessor+of] += took.Seconds() * 1000
		}
		if number != "" {
			out[figureProcessor+p.name] = took.Seconds() * 1000
		}
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
