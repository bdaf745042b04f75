package natskit

import (
	"context"
	"log/slog"
	"net"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
)

// A subscription that the server refused begins when its operator allows it, without a
// restart of the service.
func TestARefusedSubscriptionIsRegained(t *testing.T) {
	t.Parallel()
	options := func(allow ...string) *server.Options {
		return &server.Options{Host: "127.0.0.1", Port: server.RANDOM_PORT, NoSigs: true, NoLog: true, Users: []*server.User{
			{Username: "a", Password: "a"},
			{Username: "b", Password: "b", Permissions: &server.Permissions{Subscribe: &server.SubjectPermission{Allow: append(allow, "_INBOX.>")}}},
		}}
	}
	srv, err := server.NewServer(options("x"))
	if err != nil {
		t.Fatal(err)
	}
	srv.Start()
	t.Cleanup(srv.Shutdown)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	conn, err := Connect("nats://b:b@"+srv.Addr().String(), "b", slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(conn.Close)
	heard := make(chan struct{}, 1)
	if _, err := conn.Subscribe("y", func(*nats.Msg) {
		select {
		case heard <- struct{}{}:
		default:
		}
	}); err != nil {
		t.Fatal(err)
	}
	await := func(what string, holds func() bool) {
		t.Helper()
		for tick := time.NewTicker(5 * time.Millisecond); !holds(); <-tick.C {
			if ctx.Err() != nil {
				t.Fatal(what)
			}
		}
	}
	await("no refusal", func() bool { return conn.Refused(ActionSubscribe) == 1 })
	conn.regain(t.Context(), time.Hour)
	if n := conn.Refused(ActionSubscribe); n != 1 {
		t.Errorf("it tried again at once: refused %d times", n)
	}
	conn.regain(t.Context(), 0)
	if n, again := conn.Refused(ActionSubscribe), conn.Reconnects(); n != 2 || again != 0 {
		t.Errorf("while it is refused: refused %d times, connected again %d times; want 2 and 0", n, again)
	}
	allowed := options("x", "y")
	allowed.Port = srv.Addr().(*net.TCPAddr).Port
	if err := srv.ReloadOptions(allowed); err != nil {
		t.Fatal(err)
	}
	conn.regain(t.Context(), 0)
	nc, err := nats.Connect("nats://a:a@" + srv.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	await("no message", func() bool {
		_ = nc.Publish("y", nil)
		select {
		case <-heard:
			return true
		default:
			return false
		}
	})
	if n := conn.Reconnects(); n != 1 {
		t.Errorf("connected again %d times, want once", n)
	}
}
