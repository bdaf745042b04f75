package natskit

import (
	"bytes"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/unloop/unloop/schemas"
)

// A flood of records drops the oldest of them, is told of, and evicts neither
// policies nor overrides.
func TestAFloodDropsTheOldestHistoryAndNoPolicy(t *testing.T) {
	t.Parallel()
	e := startWith(t, EmbeddedConfig{DataDir: InMemory})
	var said bytes.Buffer
	conn, err := e.Connect("test", slog.New(slog.NewTextHandler(&said, nil)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(conn.Close)
	if err := conn.EnsureStreams(t.Context(), e.Layout()); err != nil {
		t.Fatal(err)
	}
	js := conn.JetStream()
	put := func(bucket, key string, n int) error {
		_, err := js.Publish(t.Context(), "$KV."+bucket+"."+key, make([]byte, n))
		return err
	}
	if err := put(schemas.BucketPolicies, "bundle", 10); err != nil {
		t.Fatal(err)
	}
	const large = 900 << 10
	for i := range 80 { // 72 MB into 64 MiB
		if err := put(schemas.BucketCounters, fmt.Sprint("k", i), large); err != nil {
			t.Fatalf("record %d: %v", i, err)
		}
	}
	kv, err := js.KeyValue(t.Context(), schemas.BucketCounters)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := kv.Get(t.Context(), "k0"); err == nil {
		t.Error("the oldest record is still there")
	}
	if _, err := kv.Get(t.Context(), "k79"); err != nil {
		t.Errorf("the newest record: %v", err)
	}
	policies, err := js.KeyValue(t.Context(), schemas.BucketPolicies)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := policies.Get(t.Context(), "bundle"); err != nil {
		t.Errorf("the policy: %v", err)
	}
	refused := 0
	for i := range 8 { // 7 MB into 4 MiB
		if put(schemas.BucketOverrides, fmt.Sprint("k", i), large) != nil {
			refused++
		}
	}
	if refused == 0 {
		t.Error("a bucket of what operators said dropped some of it")
	}
	f := NewFill(conn, e.Layout(), slog.New(slog.NewTextHandler(&said, nil)), prometheus.NewRegistry())
	f.look(t.Context())
	f.look(t.Context())
	if got := testutil.ToFloat64(f.part.WithLabelValues(schemas.BucketCounters)); got < FullFrom {
		t.Errorf("the bucket's fill is %.2f", got)
	}
	for state, want := range map[string]float64{"asked": 1, "configured": 1, "current": 1} {
		if got := testutil.ToFloat64(f.replicas.WithLabelValues("KV_"+schemas.BucketCounters, state)); got != want {
			t.Errorf("replicas %s: %v, want %v", state, got, want)
		}
	}
	if got := testutil.ToFloat64(f.bytes.WithLabelValues("KV_" + schemas.BucketCounters)); got < 60<<20 {
		t.Errorf("the bucket's stream has %v bytes", got)
	}
	if got := strings.Count(said.String(), "bucket is full"); got != 1 {
		t.Errorf("%d warnings, want one:\n%s", got, &said)
	}
}

// A bucket is as full as the first of its limits.
func TestLimitsOfRecordsFillABucketToo(t *testing.T) {
	t.Parallel()
	for want, limits := range map[float64][2]int64{0: {-1, -1}, 0.5: {200, -1}, 0.9: {200, 100}, 1: {100, 100}} {
		info := &jetstream.StreamInfo{
			Config: jetstream.StreamConfig{MaxBytes: limits[0], MaxMsgs: limits[1]}, State: jetstream.StreamState{Bytes: 100, Msgs: 90},
		}
		if got := Fullness(info); got != want {
			t.Errorf("with limits of %d bytes and %d records it is filled to %.2f, want %.2f", limits[0], limits[1], got, want)
		}
	}
}

// What is copied from other regions is measured by stream and region.
func TestRegionsAreMeasured(t *testing.T) {
	t.Parallel()
	f, now := NewFill(nil, Layout{}, slog.New(slog.DiscardHandler), prometheus.NewRegistry()), time.Now()
	from := func(region string, lag uint64, active time.Duration) *jetstream.StreamSourceInfo {
		return &jetstream.StreamSourceInfo{External: copied(schemas.StreamEvents, region, region).External, Lag: lag, Active: active}
	}
	f.measure(&jetstream.StreamInfo{
		Config: jetstream.StreamConfig{Name: schemas.StreamEvents}, Created: now.Add(-time.Hour), TimeStamp: now,
		Sources: []*jetstream.StreamSourceInfo{from("us", 7, time.Minute), from("eu", 0, -1)},
	})
	for region, want := range map[string][2]float64{"us": {7, 60}, "eu": {0, 3600}} {
		behind, silent := testutil.ToFloat64(f.behind.WithLabelValues(schemas.StreamEvents, region)), testutil.ToFloat64(f.silent.WithLabelValues(schemas.StreamEvents, region))
		if behind != want[0] || silent != want[1] {
			t.Errorf("%s: %v behind, silent for %v s, want %v", region, behind, silent, want)
		}
	}
}
