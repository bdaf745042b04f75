package natsconfig_test

import (
	"context"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/unloop/unloop/deploy/unloop/natsconfig"
	"github.com/unloop/unloop/schemas"
	"github.com/unloop/unloop/schemas/kit/natskit"
	"github.com/unloop/unloop/schemas/kit/natsperm"
	"github.com/unloop/unloop/schemas/kit/partition"
)

// A cluster of three servers with TLS: streams of one replica get three, in place and
// without a loss, and outlive a server.
func TestStreamsGetMoreReplicasInPlace(t *testing.T) {
	t.Parallel()
	in := install(t, 3, nil)
	for _, p := range in.prepare(1) {
		if !p.Created || p.Replicas != 1 {
			t.Errorf("%+v; want it created with one replica", p)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	js := in.jetstream(natsperm.Operator)
	kv, err := js.KeyValue(ctx, schemas.BucketOverrides)
	if err != nil {
		t.Fatal(err)
	}
	const records = 200
	for i := range records {
		if _, err := kv.PutString(ctx, fmt.Sprint("k", i), fmt.Sprint(i)); err != nil {
			t.Fatal(err)
		}
	}
	var log lines
	conn := in.connect(natsperm.Gateway, log.log())
	bucket := natskit.BucketStream(schemas.BucketOverrides)
	go conn.Tend(ctx, natskit.Layout{Replicas: 3}.Of([]string{bucket}))
	in.awaitLine(&log, "fewer replicas than asked for", bucket, "missing=2")
	if n := conn.Lacking()[bucket]; n != 2 {
		t.Errorf("%d replicas are missing", n)
	}
	for _, p := range in.prepare(3) {
		if !p.Raised() || p.Before != 1 || p.Replicas != 3 {
			t.Errorf("%+v; want it raised from 1 to 3", p)
		}
	}
	in.await("no replica is missing", func() bool { return conn.Lacking()[bucket] == 0 })
	lose(t, in, bucket)
	for i := range records {
		in.await("a record", func() bool {
			short, stop := context.WithTimeout(ctx, time.Second)
			defer stop()
			entry, err := kv.Get(short, fmt.Sprint("k", i))
			return err == nil && string(entry.Value()) == fmt.Sprint(i)
		})
	}
	in.await("a write", func() bool {
		short, stop := context.WithTimeout(ctx, time.Second)
		defer stop()
		_, err := kv.PutString(short, "after", "x")
		return err == nil
	})
}

// lose stops the server that leads a stream.
func lose(t *testing.T, in *installation, stream string) {
	t.Helper()
	js := in.jetstream(natsperm.Operator)
	s, err := js.Stream(t.Context(), stream)
	if err != nil {
		t.Fatal(err)
	}
	leader := s.CachedInfo().Cluster.Leader
	for _, one := range in.servers {
		if one.Name() == leader {
			one.Shutdown()
			one.WaitForShutdown()
			return
		}
	}
	t.Fatalf("no server is the leader %s", leader)
}

// A cluster with little room gives each stream its share of it, with three replicas, too.
func TestReplicasHaveBoundsOnSmallServers(t *testing.T) {
	t.Parallel()
	in := install(t, 3, func(c *natsconfig.Config) { c.MaxFileStore = "1GB" })
	in.prepare(3)
	list, sum := in.jetstream(natsperm.Operator).ListStreams(t.Context()), int64(0)
	for info := range list.Info() {
		if info.Config.MaxBytes <= 0 {
			t.Errorf("%s has no bound", info.Config.Name)
		}
		sum += info.Config.MaxBytes
	}
	if err := list.Err(); err != nil || sum < 512<<20 || sum > 1<<30 {
		t.Errorf("all bounds are %d MiB of 1024: %v", sum>>20, err)
	}
}

// A cluster refuses three replicas while a server is away. One that comes meanwhile is enough.
func TestAServerThatStartsIsAwaited(t *testing.T) {
	t.Parallel()
	in := install(t, 3, nil)
	away := slices.IndexFunc(in.servers, func(s *server.Server) bool { return !s.JetStreamIsLeader() })
	in.servers[away].Shutdown()
	in.servers[away].WaitForShutdown()
	js := in.jetstream(natsperm.Operator)
	refusals := func() (n uint64) {
		for _, s := range in.servers {
			if info, err := s.Jsz(nil); err == nil {
				n += info.API.Errors
			}
		}
		return n
	}
	in.await("the others know it", func() bool {
		return slices.ContainsFunc(in.servers, func(s *server.Server) bool { return s.JetStreamIsLeader() && len(s.JetStreamClusterPeers()) == 2 })
	})
	before := refusals()
	done := make(chan error, 1)
	go func() {
		_, err := natskit.Prepare(t.Context(), js, natskit.Layout{Replicas: 3}.Of([]string{natskit.BucketStream(schemas.BucketTimers)}))
		done <- err
	}()
	in.await("a refusal", func() bool { return refusals() > before })
	in.servers[away] = run(t, filepath.Join(in.dir, natsconfig.ServerFile(in.Nodes[away])))
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// The partitions of each bucket are led by all servers. With a server away, those that run lead
// them, and nobody waits for it.
func TestLeadersOfPartitionsAreSpread(t *testing.T) {
	t.Parallel()
	const partitions = 4
	in := install(t, 3, func(c *natsconfig.Config) { c.Partitions = 2 * partitions })
	in.prepare(3)
	js := in.jetstream(natsperm.Operator)
	if most := in.mostLed(js, partitions); most > 2 {
		t.Errorf("a server leads %d of %d partitions of a bucket, want 2 at the most", most, partitions)
	}
	lose(t, in, natskit.BucketStream(schemas.BucketCounters))
	in.prepare(3)
	if most := in.mostLed(js, partitions); most > 2 {
		t.Errorf("with a server away, one leads %d of %d partitions of a bucket, want 2 at the most", most, partitions)
	}
}

// mostLed returns the largest number of partitions of one bucket that one server leads.
func (in *installation) mostLed(js jetstream.JetStream, partitions int) (most int) {
	in.t.Helper()
	for _, bucket := range partition.Buckets {
		leads := map[string]int{}
		for _, name := range partition.Names(bucket, partitions) {
			in.await("a leader of "+name, func() bool {
				short, stop := context.WithTimeout(in.t.Context(), time.Second)
				defer stop()
				stream, err := js.Stream(short, natskit.BucketStream(name))
				if err != nil || stream.CachedInfo().Cluster.Leader == "" {
					return false
				}
				leads[stream.CachedInfo().Cluster.Leader]++
				return true
			})
		}
		most = max(most, slices.Max(slices.Collect(maps.Values(leads))))
	}
	return most
}
