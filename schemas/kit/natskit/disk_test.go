package natskit_test

import (
	"context"
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/unloop/unloop/schemas"
	"github.com/unloop/unloop/schemas/kit/natskit"
)

// external starts a server such as an operator runs, with its store in a folder.
func external(t *testing.T, dir string, port int) *server.Server {
	t.Helper()
	srv, err := server.NewServer(&server.Options{Host: "127.0.0.1", Port: port, JetStream: true, StoreDir: dir, NoSigs: true, NoLog: true})
	if err != nil {
		t.Fatal(err)
	}
	srv.Start()
	t.Cleanup(func() { srv.Shutdown(); srv.WaitForShutdown() })
	if !srv.ReadyForConnections(patience) {
		t.Fatal("the server does not start")
	}
	return srv
}

// resize gives a disk of smallDisk so many bytes beyond what is in use.
func resize(t *testing.T, dir string, more uint64) {
	t.Helper()
	var st syscall.Statfs_t
	err := syscall.Statfs(dir, &st)
	if err == nil {
		err = syscall.Mount("tmpfs", dir, "tmpfs", syscall.MS_REMOUNT, fmt.Sprint("size=", (st.Blocks-st.Bfree)*uint64(st.Bsize)+more))
	}
	if err != nil {
		t.Fatal(err)
	}
}

// The disk of a server that is not ours is full: readiness says so, and that all is
// well when its operator has made room and started it again.
func TestReadinessTellsOfAFullDiskAndOfItsEnd(t *testing.T) {
	t.Parallel()
	dir := smallDisk(t, "size=2g")
	port := freePort(t)
	srv := external(t, filepath.Join(dir, "nats"), port)
	conn, err := natskit.Connect(srv.ClientURL(), "test", slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(conn.Close)
	if err := conn.EnsureStreams(t.Context(), natskit.Layout{}); err != nil {
		t.Fatal(err)
	}
	go conn.Tend(t.Context(), natskit.Layout{})
	until(t, "readiness", func() bool { return conn.Ready() == nil })
	store := func() error { // as a service does
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		defer cancel()
		kv, err := conn.JetStream().KeyValue(ctx, schemas.BucketCounters)
		if err == nil {
			_, err = kv.Put(ctx, "live.x.y.ab", make([]byte, 64<<10))
		}
		conn.Wrote("KV_"+schemas.BucketCounters, err)
		return err
	}
	resize(t, dir, 0)
	until(t, "a refused write", func() bool { return store() != nil })
	until(t, "a reason", func() bool {
		err := conn.Ready()
		return err != nil && strings.Contains(err.Error(), "KV_"+schemas.BucketCounters)
	})
	t.Logf("not ready: %v", conn.Ready())
	resize(t, dir, 2<<30)
	srv.Shutdown()
	srv.WaitForShutdown()
	external(t, filepath.Join(dir, "nats"), port)
	began := time.Now()
	until(t, "readiness", func() bool { return conn.Ready() == nil })
	t.Logf("ready %s after the restart", time.Since(began).Round(time.Millisecond))
	until(t, "a write", func() bool { return store() == nil })
}
