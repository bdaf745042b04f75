package natskit_test

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/unloop/unloop/schemas"
	"github.com/unloop/unloop/schemas/kit/natskit"
	"github.com/unloop/unloop/schemas/kit/natstest"
)

// until waits for a condition.
func until(t *testing.T, what string, holds func() bool) {
	t.Helper()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(patience); !holds(); <-tick.C {
		if time.Now().After(deadline) {
			t.Fatalf("%s did not come about", what)
		}
	}
}

func TestADeletedBucketIsMadeAgainAndAnnounced(t *testing.T) {
	t.Parallel()
	s := natstest.Start(t)
	conn := s.Service()
	go conn.Tend(t.Context(), s.Layout())
	changed, stop := conn.Changed()
	defer stop()
	conn.Wrote("KV_"+schemas.BucketCounters, nil) // it begins with a look
	js := s.JetStream()
	for _, bucket := range []string{schemas.BucketCounters, schemas.BucketPolicies} {
		if err := js.DeleteStream(t.Context(), "KV_"+bucket); err != nil {
			t.Fatal(err)
		}
	}
	began := time.Now()
	<-changed
	t.Logf("announced after %s", time.Since(began).Round(time.Millisecond))
	for _, bucket := range []string{schemas.BucketCounters, schemas.BucketPolicies} { // the look may have been between the two
		until(t, bucket, func() bool { _, err := js.Stream(t.Context(), "KV_"+bucket); return err == nil })
	}
	until(t, "readiness", func() bool { return conn.Ready() == nil })
}

func TestARefusedWriteShowsUntilOneSucceeds(t *testing.T) {
	t.Parallel()
	s := natstest.Start(t)
	conn := s.Service()
	conn.Wrote("KV_"+schemas.BucketLimits, os.ErrDeadlineExceeded)
	if err := conn.Ready(); err == nil || !strings.Contains(err.Error(), schemas.BucketLimits) {
		t.Fatalf("got %v, want the bucket named", err)
	}
	go conn.Tend(t.Context(), s.Layout())
	until(t, "readiness", func() bool { return conn.Ready() == nil })
	if conn.LastWrite().IsZero() {
		t.Error("no write is known of")
	}
}

// smallDisk is a file system of its own, or the test is skipped.
func smallDisk(t *testing.T, options string) string {
	t.Helper()
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, options); err != nil {
		t.Skipf("NOT TESTED: a full disk needs the right to mount a file system: %v", err)
	}
	t.Cleanup(func() { _ = syscall.Unmount(dir, syscall.MNT_DETACH) })
	return dir
}

// fill takes all space that is left; the file's removal gives it back.
func fill(t *testing.T, dir string) (free func()) {
	t.Helper()
	path := filepath.Join(dir, "ballast")
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, size := range []int{1 << 20, 4096, 1} {
		for err = error(nil); err == nil; {
			_, err = f.Write(make([]byte, size))
		}
	}
	_ = f.Close()
	return func() {
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
	}
}

func TestAnEmbeddedServerStoresAgainAfterItsDiskWasFull(t *testing.T) {
	t.Parallel()
	dir := smallDisk(t, "size=1g") // streams may only be as large as the disk
	quiet := slog.New(slog.DiscardHandler)
	server, err := natskit.StartEmbedded(natskit.EmbeddedConfig{Listen: "127.0.0.1:0", DataDir: filepath.Join(dir, "nats")}, quiet)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Stop)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	conn, err := natskit.Connect(server.URL(), "test", quiet)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(conn.Close)
	if err := conn.EnsureStreams(ctx, server.Layout()); err != nil {
		t.Fatal(err)
	}
	store := func() error {
		ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
		defer cancel()
		kv, err := conn.JetStream().KeyValue(ctx, schemas.BucketCounters)
		if err == nil {
			_, err = kv.Put(ctx, "live.x.y.ab", make([]byte, 64<<10))
		}
		return err
	}
	until(t, "a write at first", func() bool { return store() == nil })
	free := fill(t, dir)
	until(t, "a refused write", func() bool { return store() != nil })
	if !server.Suspect() {
		t.Error("that a write of a client by the network was not stored has nobody look at the server")
	}
	free()
	err = store()
	t.Logf("with space again and no guard: %v", err)
	go server.Guard(ctx)
	began := time.Now()
	until(t, "a write", func() bool { return store() == nil })
	t.Logf("stores again after %s", time.Since(began).Round(time.Millisecond))
	for _, stream := range []string{schemas.BucketSessions, schemas.BucketLimits} {
		if _, err := conn.JetStream().Publish(ctx, "$KV."+stream+".x", nil, jetstream.WithRetryAttempts(0)); err != nil {
			t.Errorf("%s: %v", stream, err)
		}
	}
}
