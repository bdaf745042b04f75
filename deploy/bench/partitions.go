package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"text/tabwriter"
	"time"

	"github.com/unloop/unloop/deploy/bench/usage"
	"github.com/unloop/unloop/schemas"
	"github.com/unloop/unloop/schemas/kit/freeport"
	"github.com/unloop/unloop/schemas/kit/ledger"
	"github.com/unloop/unloop/schemas/kit/natskit"
	"github.com/unloop/unloop/schemas/kit/partition"
)

const (
	// nodes is the number of servers of a cluster.
	nodes = 3
	// writers is the number of processes that connections of this one stand for, and
	// writesInFlight how many writes each has.
	writers, writesInFlight = 2, 128
	// recordSize is the size of a record, in bytes: that of a counter.
	recordSize = 100
)

// spreads are the numbers of replicas and partitions that are compared.
var spreads = []struct{ replicas, partitions int }{{1, 1}, {1, 2}, {1, 4}, {3, 1}, {3, 2}, {3, 4}}

// clusterConfig configures a server by its name, its addresses, its store and the routes of
// all.
const clusterConfig = `server_name: %s
listen: %q
http: %q
jetstream: {store_dir: %q}
cluster: {name: bench, listen: %q, routes: [%s]}`

// partitions measures writes of new counters to a cluster of three servers, and the
// processor time that each server takes for them.
func (b *bench) partitions(ctx context.Context) error {
	fmt.Fprintf(b.out, "\nwrites of new counters, three NATS servers on this machine\n\n")
	table := tabwriter.NewWriter(b.out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "replicas\tpartitions\tleaders on each server\twrites/s\tprocessor µs per write, each server\tbusiest\tall\t")
	for _, s := range spreads {
		if err := b.spread(ctx, s.replicas, s.partitions, table); err != nil {
			return errors.Join(err, table.Flush())
		}
	}
	return table.Flush()
}

// spread measures a cluster of its own.
func (b *bench) spread(ctx context.Context, replicas, partitions int, table *tabwriter.Writer) (err error) {
	var g group
	defer func() { err = errors.Join(err, g.end()) }()
	pids, url, err := b.startCluster(ctx, &g)
	if err != nil {
		return err
	}
	var conns []*natskit.Conn
	for i := range writers {
		nc, err := natskit.Connect(url, fmt.Sprint("writer-", i), logErrors())
		if err != nil {
			return err
		}
		g.add(func() error { nc.Close(); return nil })
		conns = append(conns, nc)
	}
	layout := natskit.Layout{Replicas: replicas, Partitions: partitions}.Of([]string{natskit.BucketStream(schemas.BucketCounters)})
	if err := await(ctx, "the streams", func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, patience) // without a leader the request gets no answer
		defer cancel()
		_, err := natskit.Prepare(ctx, conns[0].JetStream(), layout)
		return err
	}); err != nil {
		return err
	}
	leaders, err := leadersOf(ctx, conns[0], partitions)
	if err != nil {
		return err
	}
	rates, each, err := b.rounds(ctx, conns, pids)
	if err != nil {
		return err
	}
	var shown []string
	busiest, all := 0.0, 0.0
	for i := range each {
		took := middle(each[i])
		shown = append(shown, fmt.Sprintf("%.0f", took))
		busiest, all = max(busiest, took), all+took
	}
	fmt.Fprintf(table, "%d\t%d\t%s\t%.0f\t%s\t%.0f\t%.0f\t\n", replicas, partitions, leaders, middle(rates), strings.Join(shown, ", "), busiest, all)
	return nil
}

// rounds returns the rate of each round, and what each server took in it.
func (b *bench) rounds(ctx context.Context, conns []*natskit.Conn, pids []int) (rates []float64, each [][]float64, err error) {
	each = make([][]float64, nodes)
	for round := range b.plan.Rounds + 1 {
		rate, took, err := b.writeFor(ctx, conns, pids, round)
		if err != nil {
			return nil, nil, err
		}
		if round == 0 { // it is cold
			continue
		}
		rates = append(rates, rate)
		for i := range took {
			each[i] = append(each[i], took[i])
		}
	}
	return rates, each, nil
}

// middle returns the median.
func middle(of []float64) float64 {
	slices.Sort(of)
	return of[len(of)/2]
}

// startCluster starts three servers, and returns their processes and addresses.
func (b *bench) startCluster(ctx context.Context, g *group) (pids []int, url string, err error) {
	var addrs [3 * nodes]string
	for i := range addrs {
		if addrs[i], err = freeport.Addr(); err != nil {
			return nil, "", err
		}
	}
	clients, routes, monitors := addrs[:nodes], addrs[nodes:2*nodes], addrs[2*nodes:]
	for i := range nodes {
		store, err := os.MkdirTemp(b.dir, "store-")
		if err != nil {
			return nil, "", fmt.Errorf("make a folder for a store: %w", err)
		}
		config := fmt.Sprintf(clusterConfig, "n"+strconv.Itoa(i+1), clients[i], monitors[i], store, routes[i], "nats://"+strings.Join(routes, ", nats://"))
		file := filepath.Join(store, "nats.conf")
		if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
			return nil, "", fmt.Errorf("write the configuration of a server: %w", err)
		}
		pid, err := g.start(ctx, program{args: []string{natsRole, file}}, "http://"+monitors[i]+"/healthz?js-enabled-only=true")
		if err != nil {
			return nil, "", err
		}
		pids = append(pids, pid)
	}
	return pids, "nats://" + strings.Join(clients, ",nats://"), nil
}

// leadersOf returns how many partitions each server leads, as text.
func leadersOf(ctx context.Context, nc *natskit.Conn, partitions int) (string, error) {
	leads := make([]string, nodes)
	counts := map[string]int{}
	for _, name := range partition.Names(schemas.BucketCounters, partitions) {
		stream, err := nc.JetStream().Stream(ctx, natskit.BucketStream(name))
		if err != nil {
			return "", err
		}
		counts[stream.CachedInfo().Cluster.Leader]++
	}
	for i := range leads {
		leads[i] = strconv.Itoa(counts["n"+strconv.Itoa(i+1)])
	}
	return strings.Join(leads, ", "), nil
}

// blob is a record of a counter's size.
type blob [recordSize]byte

// Append implements ledger.Record.
func (r *blob) Append(b []byte) []byte { return append(b, r[:]...) }

// Parse implements ledger.Record.
func (r *blob) Parse(stored []byte) error {
	if copy(r[:], stored) < len(r) {
		return io.ErrUnexpectedEOF
	}
	return nil
}

// writeFor writes new records for the time of a sample, and returns the rate and the processor
// time of each server in µs per write.
func (b *bench) writeFor(ctx context.Context, conns []*natskit.Conn, pids []int, round int) (rate float64, each []float64, err error) {
	before, err := processors(pids)
	if err != nil {
		return 0, nil, err
	}
	var written, failed atomic.Int64
	began := time.Now()
	var writing sync.WaitGroup
	for i, nc := range conns {
		records := ledger.New[blob](nc, schemas.BucketCounters, nil)
		for n := range writesInFlight {
			writing.Go(func() {
				for m := 0; time.Since(began) < b.plan.Sample && ctx.Err() == nil; m++ {
					key := fmt.Sprintf("prompt.live.default.%d-%d-%d-%d", round, i, n, m)
					if records.Apply(ctx, key, func(r blob) (blob, time.Duration) { return r, time.Minute }) != nil {
						failed.Add(1)
						continue
					}
					written.Add(1)
				}
			})
		}
	}
	writing.Wait()
	took := time.Since(began)
	after, err := processors(pids)
	if err != nil || written.Load() == 0 || failed.Load() > written.Load()/100 {
		return 0, nil, errors.Join(err, fmt.Errorf("%w: %d of %d writes failed", errAnswer, failed.Load(), written.Load()+failed.Load()))
	}
	for i := range pids {
		each = append(each, float64((after[i]-before[i]).Microseconds())/float64(written.Load()))
	}
	return float64(written.Load()) / took.Seconds(), each, nil
}

func processors(pids []int) (all []time.Duration, err error) {
	for _, pid := range pids {
		took, err := usage.Processor(pid)
		if err != nil {
			return nil, err
		}
		all = append(all, took)
	}
	return all, nil
}
