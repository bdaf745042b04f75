package main

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/unloop/unloop/deploy/bench/measure"
	"github.com/unloop/unloop/deploy/bench/traffic"
	"github.com/unloop/unloop/deploy/unloop/natsconfig"
	"github.com/unloop/unloop/schemas/kit/freeport"
	"github.com/unloop/unloop/schemas/kit/natskit"
	"github.com/unloop/unloop/schemas/kit/natsperm"
	"github.com/unloop/unloop/schemas/kit/operator"
	"github.com/unloop/unloop/schemas/kit/pause"
	"github.com/unloop/unloop/schemas/kit/seal"
)

// clusterLevel is how many requests are in flight at the most while processor times are measured.
const clusterLevel = 64

// Names of the contenders.
const (
	nameSingle = "one server, one replica"
	nameTriple = "three servers, three replicas, TLS"
)

// cluster measures the processor time of NATS servers, a detector, an embedding worker and a
// gateway, each a process, at given rates of requests.
func (b *bench) cluster(ctx context.Context) error {
	s := &stage{bench: b}
	var err error
	if s.sessions, err = b.replayed(); err != nil {
		return err
	}
	upstream, err := startRole(ctx, &b.group, originRole)
	if err != nil {
		return err
	}
	s.upstream = upstream.url
	var contenders []measure.Contender
	for _, c := range []struct {
		name  string
		nodes int
	}{{nameSingle, 1}, {nameTriple, 3}} {
		in, err := b.startServers(ctx, c.nodes, s.upstream)
		if err != nil {
			return err
		}
		contenders = append(contenders, s.contender(c.name, in))
	}
	for _, rate := range append(b.rates, 0) {
		if err := s.paced(ctx, rate, contenders); err != nil {
			return err
		}
	}
	return nil
}

// paced measures the contenders at a rate of requests; 0 is as many as they take.
func (s *stage) paced(ctx context.Context, rate int, contenders []measure.Contender) error {
	title := "as fast as requests are answered"
	if rate > 0 {
		title = fmt.Sprintf("at %d requests/s", rate)
	}
	var paced []measure.Contender
	for _, c := range contenders {
		paced = append(paced, pace(c, rate))
	}
	res, err := measure.Compare(ctx, measure.Plan{Rounds: s.plan.Rounds, Calls: s.calls, Levels: []int{clusterLevel}}, paced...)
	if err != nil {
		return err
	}
	figures := []measure.Figure{measure.Rate, measure.Share("unjudged %", figureUnjudged)}
	for _, p := range []string{natsRole, "detector", "embedworker", "gateway"} {
		figures = append(figures, measure.Read("processor ms per request of "+strings.TrimPrefix(p, "role-"), "%.3f", figureProcessor+p, 1, nil))
	}
	s.printResults(res, nameSingle, figures, "processor time of processes, %s: %s", title, traffic.ShapeOf(s.sessions))
	return nil
}

// pace holds the calls of a contender back, so that all callers of a sample together make a
// number of them in a second.
func pace(c measure.Contender, rate int) measure.Contender {
	if rate == 0 {
		return c
	}
	call, made := c.Caller, new(atomic.Int64)
	var began time.Time
	c.Caller = func(round, caller int) (measure.Op, func(), error) {
		op, end, err := call(round, caller)
		if caller == 0 {
			made.Store(0)
			began = time.Now()
		}
		start := began
		return func(ctx context.Context) error {
			due := start.Add(time.Duration(made.Add(1)) * time.Second / time.Duration(rate))
			if err := pause.For(ctx, time.Until(due)); err != nil {
				return err
			}
			return op(ctx)
		}, end, err
	}
	return c
}

// startServers starts NATS servers with users, and Unloop's services beside them.
func (b *bench) startServers(ctx context.Context, nodes int, upstream string) (*instance, error) {
	in, flags, err := b.gateway(unloop{}, upstream)
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
	if _, err := cfg.Write(dir, natsconfig.Options{}); err != nil {
		return nil, err
	}
	for _, n := range cfg.Nodes { // a server of a cluster is healthy once it has another one
		pid, err := b.spawn(ctx, program{args: []string{natsRole, filepath.Join(dir, natsconfig.ServerFile(n))}})
		if err != nil {
			return nil, err
		}
		in.processes = append(in.processes, process{natsRole, pid, ""})
	}
	for _, n := range cfg.Nodes {
		if err := await(ctx, n.Name, func(ctx context.Context) error {
			return answers(ctx, fmt.Sprintf("http://127.0.0.1:%d/healthz", n.MonitorPort))
		}); err != nil {
			return nil, err
		}
	}
	if err := prepare(ctx, cfg, dir); err != nil {
		return nil, err
	}
	for _, args := range [][]string{{natsperm.Embedworker, "--embedder", "lexical"}, {natsperm.Detector}, append([]string{natsperm.Gateway}, flags...)} {
		env, err := os.ReadFile(filepath.Join(dir, natsconfig.EnvFile(args[0])))
		if err != nil {
			return nil, fmt.Errorf("read the variables of %s: %w", args[0], err)
		}
		if err := b.launch(ctx, &b.group, unloop{env: strings.Fields(string(env))}, in, args...); err != nil {
			return nil, err
		}
	}
	return in, nil
}

// serversIn returns the configuration of servers on this machine; several have certificates and
// replicas.
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
			at, err := net.ResolveTCPAddr("tcp", addr)
			if err != nil {
				return cfg, fmt.Errorf("find a port: %w", err)
			}
			*port = at.Port
		}
		cfg.Nodes = append(cfg.Nodes, n)
	}
	return cfg, nil
}

// prepare creates the streams as the operator.
func prepare(ctx context.Context, cfg natsconfig.Config, dir string) error {
	as := natskit.Settings{NKey: filepath.Join(dir, natsconfig.SeedFile(natsperm.Operator)), InboxPrefix: natsperm.InboxPrefix(natsperm.Operator)}
	if cfg.TLS.On {
		as.TLSCA = filepath.Join(dir, "ca.pem")
	}
	by, err := seal.ReadSigner(filepath.Join(dir, natsconfig.SealSeedFile))
	if err != nil {
		return err
	}
	nc, err := as.Dial(cfg.URL(), "bench", nil)
	if err != nil {
		return err
	}
	defer nc.Close()
	js, err := as.JetStream(nc)
	if err != nil {
		return err
	}
	return await(ctx, "the streams", func(ctx context.Context) error {
		_, err := natskit.Prepare(ctx, js, natskit.Layout{Replicas: cfg.Replicas}.Everything())
		if err == nil {
			_, err = operator.EnsureCallerHashKey(ctx, js, by)
		}
		return err
	})
}

// natsServer is a NATS server by the file of its configuration, until the context ends.
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
