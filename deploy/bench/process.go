package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
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

// patience bounds what takes no time on an idle machine.
const patience = 5 * time.Second

// add adds a function that is called when the current part ends.
func (b *bench) add(end func() error) { b.ends = append(b.ends, end) }

// closing is add for a function that can't fail.
func (b *bench) closing(end func()) { b.add(func() error { end(); return nil }) }

// end stops what the current part has started, in reverse order.
func (b *bench) end() error {
	var errs []error
	for _, end := range slices.Backward(b.ends) {
		errs = append(errs, end())
	}
	b.ends = nil
	return errors.Join(errs...)
}

// program is a program with its arguments and additional environment.
type program struct {
	file      string // "" is this executable
	args, env []string
}

func (p program) command(ctx context.Context) *exec.Cmd {
	cmd := exec.CommandContext(ctx, cmp.Or(p.file, os.Args[0]), p.args...)
	cmd.Env, cmd.Stderr = append(os.Environ(), p.env...), os.Stderr
	return cmd
}

// start runs a program until the part ends.
func (b *bench) start(ctx context.Context, p program) (pid int, err error) {
	running, stop := context.WithCancel(ctx)
	cmd := p.command(running)
	cmd.Cancel, cmd.WaitDelay = func() error { return cmd.Process.Signal(os.Interrupt) }, 30*time.Second
	if err := cmd.Start(); err != nil {
		stop()
		return 0, fmt.Errorf("start %q: %w", p.args, err)
	}
	b.add(func() error {
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

// instance is a thing that is measured: Unloop, in one process or several, or a bare proxy.
type instance struct {
	name, url string
	processes []process
	nats      string            // the URL of its NATS server with the token; "" if it has none
	header    map[string]string // that clients send, beside those that all send
}

// process is a process of an instance. Several of one kind have names such as nats-1.
type process struct {
	name    string
	pid     int
	metrics string // their URL; "" for none
}

// startProcess starts a process of an instance, and waits until it answers at a URL.
func (b *bench) startProcess(ctx context.Context, in *instance, name string, p program, ready, metrics string) error {
	pid, err := b.start(ctx, p)
	if err != nil {
		return err
	}
	in.processes = append(in.processes, process{name, pid, metrics})
	return await(ctx, name, func(ctx context.Context) error {
		_, err := usage.Metrics(ctx, ready) // any page will do
		return err
	})
}

// unloop is an executable of Unloop and the way its gateway runs.
type unloop struct {
	name       string // of the contender
	binary     string // its file; "" is the code that this benchmark was built with
	flags, env []string
}

// patient are flags for a gateway that takes no pause of the machine for a failure.
var patient = []string{"--check-timeout", patience.String()}

// command returns a command of unloop.
func (u unloop) command(args ...string) program {
	if u.binary == "" {
		args = append([]string{unloopRole}, args...)
	}
	return program{u.binary, args, u.env}
}

// launch starts a service of unloop.
func (b *bench) launch(ctx context.Context, u unloop, in *instance, args ...string) error {
	admin, err := freeport.Addr()
	if err != nil {
		return err
	}
	p := u.command(append(slices.Clone(args), "--admin", admin, "--log-level", "error")...)
	// Loops get a 429 however often they come.
	p.env = append(slices.Clone(p.env), "XDG_RUNTIME_DIR="+b.dir, "UNLOOP_REJECT=429")
	return b.startProcess(ctx, in, args[0], p, "http://"+admin+"/readyz", "http://"+admin+"/metrics")
}

// startNATS starts a command that runs the NATS server of an instance.
func (b *bench) startNATS(ctx context.Context, u unloop, in *instance, command string, flags ...string) error {
	store, err := os.MkdirTemp(b.dir, "store-")
	if err != nil {
		return fmt.Errorf("make a folder for a store: %w", err)
	}
	addr, err := freeport.Addr()
	if err != nil {
		return err
	}
	if err := b.launch(ctx, u, in, append([]string{command, "--nats-listen", addr, "--data-dir", store}, flags...)...); err != nil {
		return err
	}
	token, err := os.ReadFile(filepath.Join(store, "nats.token"))
	if err != nil {
		return fmt.Errorf("read the token of NATS: %w", err)
	}
	in.nats = "nats://" + strings.TrimSpace(string(token)) + "@" + addr
	return nil
}

// newInstance returns an instance without processes, and the flags for its gateway.
func (b *bench) newInstance(u unloop, upstream *instance) (*instance, []string, error) {
	addr, err := freeport.Addr()
	if err != nil {
		return nil, nil, err
	}
	flags := append([]string{"--listen", addr, "--upstream", "openai=" + upstream.url}, u.flags...)
	return &instance{name: u.name, url: "http://" + addr}, flags, nil
}

// lineUp starts an upstream and, in front of it, a bare proxy and, of each binary, each kind
// of Unloop, in one process that stores files.
func (b *bench) lineUp(ctx context.Context, kinds ...unloop) (upstream *instance, all []*instance, err error) {
	if upstream, err = b.startRole(ctx, originRole); err != nil {
		return nil, nil, err
	}
	proxy, err := b.startRole(ctx, proxyRole, upstream.url)
	if err != nil {
		return nil, nil, err
	}
	proxy.name = nameProxy
	all = []*instance{proxy}
	for _, rival := range b.rivals() {
		for _, u := range kinds {
			u.name, u.binary = u.name+rival.name, rival.binary
			in, flags, err := b.newInstance(u, upstream)
			if err != nil {
				return nil, nil, err
			}
			if err := b.startNATS(ctx, u, in, "up", append([]string{"--embedder", "lexical"}, flags...)...); err != nil {
				return nil, nil, err
			}
			all = append(all, in)
		}
	}
	return upstream, all, nil
}

// Names of the figures of an instance. That of a process's processor time ends with the name
// of the process or its kind.
const (
	figureProcessor   = "processor"   // ms
	figureAllocations = "allocations" // objects
	figureAllocated   = "allocated"   // KB
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
		ms := took.Seconds() * 1000
		out[figureProcessor] += ms
		out[figureProcessor+kind] += ms
		if number != "" {
			out[figureProcessor+p.name] = ms
		}
		if p.metrics == "" {
			continue
		}
		m, err := usage.Metrics(ctx, p.metrics, usage.Allocations, usage.AllocatedBytes)
		if err != nil {
			return nil, err
		}
		out[figureAllocations] += m[usage.Allocations]
		out[figureAllocated] += m[usage.AllocatedBytes] / 1000
	}
	return out, nil
}
