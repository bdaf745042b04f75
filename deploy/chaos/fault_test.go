package chaos

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"google.golang.org/protobuf/proto"

	"github.com/unloop/unloop/schemas"
	"github.com/unloop/unloop/schemas/checkpb"
	"github.com/unloop/unloop/schemas/kit/natskit"
	"github.com/unloop/unloop/schemas/kit/pause"
)

// fault is one way to break the cluster: begin breaks it, end does what an operator would
// do to repair it. Without end, the fault is over when begin returns.
type fault struct {
	name       string
	begin, end func(context.Context, *cluster) error
	// heals says that the cluster recovers by itself as soon as JetStream takes writes
	// again. The time until loops are stopped counts from the beginning then.
	heals bool
	// elects says that JetStream may have to elect leaders meanwhile, and take no writes.
	elects bool
	// every is the pause between two requests; 0 is that of the normal load.
	every time.Duration
	// mixed says that processes of two versions run.
	mixed bool
	// disk says that the fault needs a disk that can be made full.
	disk bool
	// large is the size, in bytes, of every eighth prompt; 0 for small ones alone.
	large int
	// slower is how much longer a request may take than in other faults.
	slower time.Duration
	// decided says that there must be a decision about nearly all requests.
	decided bool
}

// faults are those of a cluster with one server.
var faults = []fault{
	{name: "NATS silent", begin: signal(theServer, syscall.SIGSTOP), end: signal(theServer, syscall.SIGCONT)},
	{name: "NATS killed", begin: kill(theServer, syscall.SIGKILL), end: again(theServer)},
	{name: "network cut", begin: cut, end: join},
	{name: "connections closed for good", begin: refuse(true), end: refuse(false)},
	{name: "disk full", begin: diskFull, end: diskFree, disk: true},
	{name: "a detector frozen", begin: signal(aDetector, syscall.SIGSTOP), end: signal(aDetector, syscall.SIGCONT)},
	{name: "a detector killed", begin: kill(aDetector, syscall.SIGKILL), end: again(aDetector)},
	{name: "buckets deleted", begin: deleteBuckets},
	{name: "hostile peer", begin: hostilePeer},
	{name: "gateways restarted in turn, 60 requests/s", begin: rollGateways, every: time.Second / 60},
}

// leaderFaults are those of a cluster with three servers.
var leaderFaults = []fault{
	{name: "leader of three terminated", begin: killLeader(syscall.SIGTERM), end: again(theVictim), heals: true},
	{name: "leader of three killed", begin: killLeader(syscall.SIGKILL), end: again(theVictim), heals: true},
}

func theServer(c *cluster) *process { return c.servers[0] }
func theVictim(c *cluster) *process { return c.victim }
func aDetector(c *cluster) *process { return c.detectors[0] }

func signal(which func(*cluster) *process, sig syscall.Signal) func(context.Context, *cluster) error {
	return func(_ context.Context, c *cluster) error { which(c).signal(sig); return nil }
}

func kill(which func(*cluster) *process, sig syscall.Signal) func(context.Context, *cluster) error {
	return func(_ context.Context, c *cluster) error { which(c).end(sig); return nil }
}

func again(which func(*cluster) *process) func(context.Context, *cluster) error {
	return func(ctx context.Context, c *cluster) error {
		<-which(c).ended
		return c.run(ctx, which(c))
	}
}

func cut(_ context.Context, c *cluster) error  { c.line.cut(); return nil }
func join(_ context.Context, c *cluster) error { c.line.join(); return nil }

func refuse(clients bool) func(context.Context, *cluster) error {
	return func(_ context.Context, c *cluster) error { c.line.refuse(clients); return nil }
}

// connect connects to the cluster's NATS.
func (c *cluster) connect() (*natskit.Conn, error) {
	return natskit.Connect(c.nats, "chaos", slog.New(slog.DiscardHandler))
}

func deleteBuckets(ctx context.Context, c *cluster) error {
	conn, err := c.connect()
	if err != nil {
		return err
	}
	defer conn.Close()
	for _, bucket := range []string{schemas.BucketCounters, schemas.BucketPolicies, schemas.BucketSessions} {
		if err := conn.JetStream().DeleteStream(ctx, "KV_"+bucket); err != nil {
			return fmt.Errorf("delete %s: %w", bucket, err)
		}
	}
	return nil
}

var errLeader = errors.New("no such leader")

// killLeader signals the server that leads the counters.
func killLeader(sig syscall.Signal) func(context.Context, *cluster) error {
	return func(ctx context.Context, c *cluster) error {
		leader, err := c.leader(ctx)
		if err != nil {
			return err
		}
		c.victim = leader
		leader.signal(sig)
		return nil
	}
}

func (c *cluster) leader(ctx context.Context) (*process, error) {
	conn, err := c.connect()
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	stream, err := conn.JetStream().Stream(ctx, "KV_"+schemas.BucketCounters)
	if err != nil {
		return nil, fmt.Errorf("look for the leader: %w", err)
	}
	if info := stream.CachedInfo().Cluster; info != nil {
		if i := slices.IndexFunc(c.servers, func(p *process) bool { return p.name == info.Leader }); i >= 0 {
			return c.servers[i], nil
		}
	}
	return nil, errLeader
}

// writable returns the time since the given one until the cluster takes writes to the
// counters. Followers of a killed leader wait 4 to 9 s before they elect another one,
// which cannot be configured.
func (c *cluster) writable(ctx context.Context, since time.Time) (time.Duration, error) {
	conn, err := c.connect()
	if err != nil {
		return 0, err
	}
	defer conn.Close()
	for time.Since(since) < startWithin && ctx.Err() == nil {
		if err = write(ctx, conn, schemas.BucketCounters); err == nil {
			break
		}
	}
	return time.Since(since), err
}

// writeWithin bounds one write that is tried, writeEvery is the pause between two.
const writeWithin, writeEvery = 100 * time.Millisecond, 20 * time.Millisecond

func write(ctx context.Context, conn *natskit.Conn, bucket string) error {
	ctx, cancel := context.WithTimeout(ctx, writeWithin)
	defer cancel()
	_, err := conn.JetStream().Publish(ctx, "$KV."+bucket+".live.x.y.ab", nil, jetstream.WithRetryAttempts(0))
	return err
}

// unwritable returns for how long in all the cluster took no writes to a bucket until the
// context ended.
func (c *cluster) unwritable(ctx context.Context, bucket string) (all time.Duration, err error) {
	conn, err := natskit.Connect(c.nats, "chaos", slog.New(slog.DiscardHandler))
	if err != nil {
		return 0, err
	}
	defer conn.Close()
	for last := time.Now(); pause.For(ctx, writeEvery) == nil; last = time.Now() {
		if write(ctx, conn, bucket) != nil {
			all += time.Since(last)
		}
	}
	return all, nil
}

// hostilePeer sends checks with names that are longer than a server takes.
func hostilePeer(_ context.Context, c *cluster) error {
	conn, err := c.connect()
	if err != nil {
		return err
	}
	defer conn.Close()
	long := strings.Repeat("x", 100<<10)
	body, err := proto.Marshal(&checkpb.CheckBatch{BudgetMs: 1000, Checks: []*checkpb.Check{{
		RequestId: long, Identity: &checkpb.Identity{Tenant: long},
		Counters: []*checkpb.Counter{{Policy: long, Detector: "prompt", Fingerprint: make([]byte, 32), WindowSeconds: 60, Threshold: 2, Steps: []*checkpb.Step{{At: 1, Action: checkpb.Action_ACTION_REJECT}}}},
	}}})
	if err != nil {
		return fmt.Errorf("make a check: %w", err)
	}
	for range 8 {
		if err := conn.NATS().Publish(schemas.SubjectCheck, body); err != nil {
			return fmt.Errorf("send a check: %w", err)
		}
	}
	return conn.NATS().FlushTimeout(5 * time.Second)
}

func rollGateways(ctx context.Context, c *cluster) error {
	for _, g := range c.gateways {
		g.end(syscall.SIGTERM)
		if err := c.run(ctx, g); err != nil {
			return err
		}
	}
	return nil
}
