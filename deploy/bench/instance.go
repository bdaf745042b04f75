package main

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"

	"github.com/unloop/unloop/deploy/bench/measure"
	"github.com/unloop/unloop/deploy/bench/roles"
	"github.com/unloop/unloop/deploy/bench/usage"
	"github.com/unloop/unloop/schemas/kit/freeport"
)

// instance is a proxy that is measured: Unloop in one process or several, or a bare one.
type instance struct {
	url string
	// metrics are the addresses of its processes' metrics.
	metrics   []string
	processes []*roles.Process
	// nats is the address of its NATS server, with the token; "" if it has none.
	nats string
}

// unloop is an executable of Unloop and the flags for its gateway.
type unloop struct {
	// binary is its file; "" is the code that this benchmark was built with.
	binary string
	// policies is a bundle in YAML; "" is the default policy.
	policies string
	flags    []string
}

// cliRole is the command line of unloop.
const cliRole = "unloop"

// launch starts a command of unloop that serves /readyz at --admin, and waits until it is
// ready.
func (b *bench) launch(ctx context.Context, u unloop, in *instance, parts *ender, args ...string) error {
	admin, err := freeport.Addr()
	if err != nil {
		return err
	}
	args = append(args, "--admin", admin, "--log-level", "error")
	p, err := roles.Launch(ctx, roles.Program{File: u.binary, Role: cliRole, Args: args, Env: []string{"XDG_RUNTIME_DIR=" + b.dir, always429}})
	if err != nil {
		return err
	}
	parts.add(p.Stop)
	in.processes, in.metrics = append(in.processes, p), append(in.metrics, "http://"+admin+"/metrics")
	return await(ctx, "unloop "+args[0], func(ctx context.Context) error { return ready(ctx, "http://"+admin+"/readyz") })
}

func ready(ctx context.Context, url string) error {
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

// addresses are those of an Unloop that is about to start.
type addresses struct{ gateway, nats, store string }

func (b *bench) addresses() (a addresses, err error) {
	if a.store, err = b.store(); err != nil {
		return a, err
	}
	for _, addr := range []*string{&a.gateway, &a.nats} {
		if *addr, err = freeport.Addr(); err != nil {
			return a, err
		}
	}
	return a, nil
}

// startUp starts Unloop in one process, with its store in files.
func (b *bench) startUp(ctx context.Context, u unloop, upstream string, parts *ender) (*instance, error) {
	return b.start(ctx, u, upstream, false, parts)
}

// startApart starts Unloop as a NATS server, a detector, an embedding worker and a
// gateway, each a process of its own.
func (b *bench) startApart(ctx context.Context, u unloop, upstream string, parts *ender) (*instance, error) {
	return b.start(ctx, u, upstream, true, parts)
}

func (b *bench) start(ctx context.Context, u unloop, upstream string, apart bool, parts *ender) (*instance, error) {
	a, err := b.addresses()
	if err != nil {
		return nil, err
	}
	flags, err := b.gatewayFlags(u, a, upstream)
	if err != nil {
		return nil, err
	}
	in := &instance{url: "http://" + a.gateway}
	first := append([]string{"up", "--nats-listen", a.nats, "--data-dir", a.store, "--embedder", "lexical"}, flags...)
	if apart {
		first = []string{"nats", "--nats-listen", a.nats, "--data-dir", a.store}
	}
	if err := b.launch(ctx, u, in, parts, first...); err != nil {
		return nil, err
	}
	token, err := os.ReadFile(filepath.Join(a.store, "nats.token"))
	if err != nil {
		return nil, fmt.Errorf("read the token of NATS: %w", err)
	}
	in.nats = "nats://" + strings.TrimSpace(string(token)) + "@" + a.nats
	if !apart {
		return in, nil
	}
	for _, args := range [][]string{
		{"embedworker", "--nats", in.nats, "--embedder", "lexical"}, {"detector", "--nats", in.nats},
		append([]string{"gateway", "--nats", in.nats}, flags...),
	} {
		if err := b.launch(ctx, u, in, parts, args...); err != nil {
			return nil, err
		}
	}
	return in, nil
}

// gatewayFlags returns the flags of the gateway.
func (b *bench) gatewayFlags(u unloop, a addresses, upstream string) ([]string, error) {
	flags := append([]string{"--listen", a.gateway, "--upstream", "openai=" + upstream}, u.flags...)
	if u.policies == "" {
		return flags, nil
	}
	file := filepath.Join(a.store, "policies.yaml")
	if err := os.WriteFile(file, []byte(u.policies), 0o600); err != nil {
		return nil, fmt.Errorf("write policies: %w", err)
	}
	return append(flags, "--policies", file), nil
}

// startProxy starts a bare proxy.
func startProxy(ctx context.Context, upstream string, parts *ender) (*instance, error) {
	p, err := parts.role(ctx, "proxy", upstream)
	if err != nil {
		return nil, err
	}
	return &instance{url: p.Addr, metrics: []string{p.Addr + proxyMetrics}, processes: []*roles.Process{p}}, nil
}

// Names of the figures that an instance reads.
const (
	figureProcessor   = "processor"   // ms
	figureAllocations = "allocations" // objects
	figureAllocated   = "allocated"   // bytes
)

// read is the meter of an instance.
func (in *instance) read(ctx context.Context) (measure.Reading, error) {
	out, err := processorTimes(map[string][]int{figureProcessor: pids(in.processes)})
	if err != nil {
		return nil, err
	}
	for _, url := range in.metrics {
		m, err := usage.Metrics(ctx, url, usage.Allocations, usage.AllocatedBytes)
		if err != nil {
			return nil, err
		}
		out[figureAllocations] += m[usage.Allocations]
		out[figureAllocated] += m[usage.AllocatedBytes]
	}
	return out, nil
}
