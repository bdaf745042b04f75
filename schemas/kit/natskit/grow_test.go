package natskit_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/unloop/unloop/schemas"
	"github.com/unloop/unloop/schemas/kit/natskit"
	"github.com/unloop/unloop/schemas/kit/natstest"
	"github.com/unloop/unloop/schemas/kit/partition"
)

// One partition is what there was before there were any.
func TestStreamsHaveTheNamesOfPartitions(t *testing.T) {
	t.Parallel()
	one, four := natskit.Layout{}.Everything(), natskit.Layout{Partitions: 4}.Everything()
	for _, cfg := range one.Configs() {
		if _, has := cfg.Metadata["unloop.partitions"]; has || strings.HasSuffix(cfg.Name, "_1") {
			t.Errorf("without partitions there is %s with %v", cfg.Name, cfg.Metadata)
		}
	}
	names := four.Streams()
	if want := len(one.Streams()) + 3*len(partition.Buckets); len(names) != want {
		t.Errorf("%d streams, want %d: %v", len(names), want, names)
	}
	for _, name := range []string{"KV_LOOP_COUNTERS", "KV_LOOP_COUNTERS_3", "KV_LOOP_VECTORS_1"} {
		if !slices.Contains(names, name) {
			t.Errorf("no stream %s among %v", name, names)
		}
	}
	for _, cfg := range four.Configs() {
		if scheme := partition.Parse(cfg.Metadata); cfg.Name == "KV_LOOP_COUNTERS" && scheme.Count != 4 {
			t.Errorf("the metadata say %+v", scheme)
		}
	}
}

func TestPartitionsGrow(t *testing.T) {
	t.Parallel()
	s := natstest.Start(t)
	js := s.JetStream()
	for i := range 100 {
		msg := &nats.Msg{Subject: fmt.Sprint("$KV.LOOP_COUNTERS.live.", i), Data: []byte("x"), Header: nats.Header{"Nats-TTL": {"3600s"}}}
		if _, err := js.PublishMsg(t.Context(), msg); err != nil {
			t.Fatal(err)
		}
	}
	layout := s.Layout()
	layout.Partitions = 4
	growth := natskit.Growth{JS: js, Layout: layout.Everything()}
	if _, err := natskit.Prepare(t.Context(), js, growth.Layout); err != nil {
		t.Fatal(err)
	}
	if _, err := growth.Begin(t.Context()); err != nil {
		t.Fatal(err)
	}
	for count, want := range map[int]string{2: "fewer", 3: "it must be 1, 2, 4", 8: "has not ended"} {
		layout.Partitions = count
		other := natskit.Growth{JS: js, Layout: layout.Everything()}
		if _, err := other.Run(t.Context()); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%d partitions meanwhile: error %v, want %q", count, err, want)
		}
	}
	scheme, err := growth.Proceed(t.Context(), partition.Moving)
	if err != nil {
		t.Fatal(err)
	}
	if left, err := growth.Sweep(t.Context(), scheme); err != nil || left == 0 || left == 100 {
		t.Errorf("%d records were at former places, %v", left, err)
	}
	if _, err = growth.Proceed(t.Context(), partition.Settled); err != nil {
		t.Fatal(err)
	}
	for i := range 100 {
		key := fmt.Sprint("live.", i)
		place := scheme.Place(schemas.BucketCounters, key)
		stream, err := js.Stream(t.Context(), "KV_"+place)
		if err != nil {
			t.Fatal(err)
		}
		msg, err := stream.GetLastMsgForSubject(t.Context(), "$KV."+place+"."+key)
		if err != nil || string(msg.Data) != "x" || msg.Header.Get("Nats-TTL") != "3600s" {
			t.Errorf("%s in %s: %+v, %v", key, place, msg, err)
		}
	}
	layout.Partitions = 2
	again := natskit.Growth{JS: js, Layout: layout.Everything()}
	if _, err := again.Run(t.Context()); !errors.Is(err, natskit.ErrFewer) {
		t.Errorf("fewer partitions: error %v", err)
	}
	layout.Partitions = 0
	again.Layout = layout.Everything()
	if done, err := again.Run(t.Context()); err != nil || len(done) != len(growth.Layout.Streams()) {
		t.Errorf("as it is: %d streams, %v", len(done), err)
	}
}

func TestPartitionsAreAskedForAgainAfterAWriteBeforeTheNextOne(t *testing.T) {
	t.Parallel()
	s := natstest.Start(t)
	conn := s.Service()
	asked := make(chan struct{}, 8)
	if _, err := s.Conn().Subscribe("$JS.API.STREAM.INFO."+natskit.BucketStream(partition.Truth), func(*nats.Msg) { asked <- struct{}{} }); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(s.Conn().Flush(), conn.AskPartitions(t.Context())); err != nil {
		t.Fatal(err)
	}
	if _, fresh := conn.UsePartitions(); !fresh {
		t.Error("the answer is not known")
	}
	for range 2 { // that of the test, and one that nothing waits for
		select {
		case <-asked:
		case <-time.After(patience):
			t.Fatal("the partitions are not asked for")
		}
	}
}

// A process relies on what it knows for the time of a lease alone.
func TestPartitionsAreKnownForTheTimeOfALease(t *testing.T) {
	t.Parallel()
	s := natstest.Start(t)
	if _, fresh := s.Service().UsePartitions(); fresh {
		t.Error("what was not asked for counts as known")
	}
	conn := s.Service()
	natskit.Learn(conn, partition.Scheme{Count: 8}, time.Now().Add(-partition.Lease))
	if scheme, fresh := conn.UsePartitions(); fresh || scheme.Count != 8 {
		t.Errorf("after a lease: %+v, fresh %v", scheme, fresh)
	}
	if err := conn.AskPartitions(t.Context()); err != nil {
		t.Fatal(err)
	}
	// The stream does not know of any partitions, as one that was made again.
	if scheme, fresh := conn.UsePartitions(); !fresh || scheme.Count != 8 {
		t.Errorf("after the answer: %+v, fresh %v", scheme, fresh)
	}
	conn.Close()
	if err := conn.AskPartitions(t.Context()); err == nil {
		t.Error("a closed connection answers")
	}
}
