package main

import (
	"context"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/nats-io/nats-server/v2/server"
	"golang.org/x/time/rate"

	"github.com/unloop/unloop/deploy/bench/measure"
	"github.com/unloop/unloop/deploy/bench/traffic"
	"github.com/unloop/unloop/deploy/unloop/natsconfig"
	"github.com/unloop/unloop/schemas/kit/freeport"
	"github.com/unloop/unloop/schemas/kit/natsperm"
)

// clusterLevel is the largest number of requests in flight.
const clusterLevel = 64

// nameSingle is the name of the contender that the others are compared with.
const nameSingle = "one server, one replica"

// cluster measures the processor time of NATS servers, a detector, an embedding worker and a
// gateway, each a process, at given request rates.
func (b *bench) cluster(ctx context.Context) error {
	sessions, err := b.replayed()
	if err != nil {
		return err
	}
	upstream, err := b.startRole(ctx, originRole)
	if err != nil {
		return err
	}
	var contenders []measure.Contender
	for _, c := range []struct {
		name              string
		nodes, partitions int
	}{{nameSingle, 1, 1}, {"three servers, three replicas, TLS", 3, 1}, {"the same, four partitions", 3, 4}} {
		in, err := b.startServers(ctx, c.name, c.nodes, c.partitions, upstream)
		if err != nil {
			return err
		}
		contenders = append(contenders, b.replays(sessions, in, chatPath))
	}
	for _, perSecond := range append(b.rates, 0) {
		if err := b.paced(ctx, perSecond, contenders, traffic.Shape(sessions)); err != nil {
			return err
		}
	}
	return nil
}

// paced measures the contenders at a request rate; 0 means as fast as they answer.
func (b *bench) paced(ctx context.Context, perSecond int, contenders []measure.Contender, shape string) error {
	title := "as fast as requests are answered"
	if perSecond > 0 {
		title, contenders = fmt.Sprintf("at %d requests/s", perSecond), slices.Clone(contenders)
		for i, c := range contenders {
			contenders[i] = pace(c, perSecond)
		}
	}
	res, err := measure.Compare(ctx, measure.Plan{Rounds: b.plan.Rounds, Calls: b.plan.Calls, Levels: []int{clusterLevel}}, contenders...)
	if err != nil {
		return err
	}
	figures := []measure.Figure{measure.Rate, unjudgedFigure}
	for _, p := range []string{"nats", "nats-1", "nats-2", "nats-3", natsperm.Detector, natsperm.Embedworker, natsperm.Gateway} {
		figures = append(figures, measure.Figure{Name: "processor ms per request of " + p, Format: "%.3f", Of: figureProcessor + p})
	}
	b.show(res, nameSingle, figures, fmt.Sprintf("processor time of processes, %s: %s", title, shape))
	return nil
}

// pace limits the calls of all callers of a contender together to a rate.
func pace(c measure.Contender, perSecond int) measure.Contender {
	call, limit := c.Caller, rate.NewLimiter(rate.Limit(perSecond), 1)
	c.Caller = func(round, caller int) (measure.Op, func()) {
		op, end := call(round, caller)
		return func(ctx context.Context) error {
			if err := limit.Wait(ctx); err != nil {
				return err
			}
			return op(ctx)
		}, end
	}
	return c
}

// startServers starts NATS servers with users, and Unloop's services beside them.
func (b *bench) startServers(ctx context.Context, name string, nodes, partitions int, upstream *instance) (*instance, error) {
	in, flags, err := b.newInstance(unloop{name: name}, upstream)
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp(b.dir, "servers-")
	if err != nil {
		return nil, fmt.Errorf("make a folder for servers: %w", err)
	}
	cfg, err := serversIn(dir, nodes)
	if err != nil {
		return nil, err
	}
	cfg.Partitions = partitions
	if _, err := cfg.Write(dir, natsconfig.Options{}); err != nil {
		return nil, err
	}
	for _, n := range cfg.Nodes {
		pid, err := b.start(ctx, program{args: []string{natsRole, filepath.Join(dir, natsconfig.ServerFile(n))}})
		if err != nil {
			return nil, err
		}
		in.processes = append(in.processes, process{n.Name, pid, ""})
	}
	if err := prepare(ctx, dir); err != nil {
		return nil, err
	}
	for _, args := range [][]string{{natsperm.Embedworker, "--embedder", "lexical"}, {natsperm.Detector}, append([]string{natsperm.Gateway}, flags...)} {
		u, err := as(dir, args[0])
		if err != nil {
			return nil, err
		}
		if err := b.launch(ctx, u, in, args...); err != nil {
			return nil, err
		}
	}
	return in, nil
}

// prepare creates the streams as the operator, as soon as the servers are up.
func prepare(ctx context.Context, dir string) error {
	u, err := as(dir, natsperm.Operator)
	if err != nil {
		return err
	}
	return await(ctx, "the streams", func(ctx context.Context) error {
		cmd := u.command("nats", "init").command(ctx)
		cmd.Stderr = nil // for CombinedOutput
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("unloop nats init: %w: %s", err, out)
		}
		return nil
	})
}

// as returns Unloop with the environment of a user.
func as(dir, user string) (unloop, error) {
	env, err := os.ReadFile(filepath.Join(dir, natsconfig.EnvFile(user)))
	if err != nil {
		return unloop{}, fmt.Errorf("read the variables of %s: %w", user, err)
	}
	return unloop{env: strings.Fields(string(env))}, nil
}

// serversIn returns the configuration of NATS servers on this machine. Several servers have
// certificates and replicas.
func serversIn(dir string, nodes int) (natsconfig.Config, error) {
	cfg := natsconfig.Config{
		Listen: "127.0.0.1", TLS: natsconfig.TLS{On: nodes > 1}, StoreDir: filepath.Join(dir, "store-%s"), ServerDir: dir, ClientDir: dir, Replicas: nodes,
		MaxFileStore: "64GB", // streams reserve their bounds, and the disk may be small
	}
	for i := range nodes {
		n := natsconfig.Node{Name: fmt.Sprint("nats-", i+1), Host: "127.0.0.1"}
		for _, port := range []*int{&n.ClientPort, &n.RoutePort, &n.MonitorPort} {
			addr, err := freeport.Addr()
			if err != nil {
				return cfg, err
			}
			*port = int(netip.MustParseAddrPort(addr).Port())
		}
		cfg.Nodes = append(cfg.Nodes, n)
	}
	return cfg, nil
}

// natsServer runs a NATS server with a configuration file until the context ends.
func natsServer(ctx context.Context, args []string) error {
	opts, err := server.ProcessConfigFile(args[0])
	if err != nil {
		return fmt.Errorf("read %s: %w", args[0], err)
	}
	opts.NoSigs, opts.NoLog = true, true
	s, err := server.NewServer(opts)
	if err != nil {
		return fmt.Errorf("make a NATS server: %w", err)
	}
	s.Start()
	<-ctx.Done()
	s.Shutdown()
	s.WaitForShutdown()
	return nil
}
