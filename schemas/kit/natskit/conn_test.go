package natskit_test

import (
	"errors"
	"io"
	"log/slog"
	"net"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/unloop/unloop/schemas/kit/natskit"
	"github.com/unloop/unloop/schemas/kit/natstest"
)

// gate is a way to a server that can fall silent without closing, as a stopped
// process or a cut network does.
type gate struct {
	net.Listener
	// user is the server's credentials.
	user   string
	mu     sync.Mutex
	open   *sync.Cond
	closed bool
}

func gateTo(t *testing.T, url string) *gate {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	user, server, _ := strings.Cut(strings.TrimPrefix(url, "nats://"), "@")
	g := &gate{Listener: ln, user: user}
	g.open = sync.NewCond(&g.mu)
	t.Cleanup(func() { _ = ln.Close(); g.set(false) })
	go func() {
		for {
			client, err := ln.Accept()
			if err != nil {
				return
			}
			go g.join(client, server)
		}
	}()
	return g
}

func (g *gate) url() string { return "nats://" + g.user + "@" + g.Addr().String() }

func (g *gate) set(silent bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.closed = silent
	g.open.Broadcast()
}

func (g *gate) pass() {
	g.mu.Lock()
	defer g.mu.Unlock()
	for g.closed {
		g.open.Wait()
	}
}

func (g *gate) join(client net.Conn, server string) {
	defer func() { _ = client.Close() }()
	g.pass()
	up, err := net.Dial("tcp", server)
	if err != nil {
		return
	}
	defer func() { _ = up.Close() }()
	go g.copy(client, up)
	g.copy(up, client)
}

func (g *gate) copy(to io.WriteCloser, from io.Reader) {
	defer func() { _ = to.Close() }()
	buf := make([]byte, 64<<10)
	for {
		n, err := from.Read(buf)
		if err != nil {
			return
		}
		g.pass()
		if _, err := to.Write(buf[:n]); err != nil {
			return
		}
	}
}

func echoing(t *testing.T, s *natstest.Server) {
	t.Helper()
	server := s.Conn()
	if _, err := server.Subscribe("echo", func(m *nats.Msg) { _ = m.Respond(m.Data) }); err != nil {
		t.Fatal(err)
	}
	if err := server.Flush(); err != nil {
		t.Fatal(err)
	}
}

// untilAnswered asks until there is an answer, and returns how long that took.
func untilAnswered(t *testing.T, in *natskit.Inbox) time.Duration {
	t.Helper()
	began := time.Now()
	for time.Since(began) < patience {
		if got := ask(in, "echo", "x"); got.err == nil {
			return time.Since(began)
		}
	}
	t.Fatal("there is no answer")
	return 0
}

func TestRequestsToASilentServerCostTheirTimeoutOnceAndThenNothing(t *testing.T) {
	t.Parallel()
	s := natstest.StartBare(t)
	echoing(t, s)
	way := gateTo(t, s.URL())
	conn, err := natskit.Connect(way.url(), "test", slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(conn.Close)
	in := natskit.NewInbox(conn, 50*time.Millisecond)
	untilAnswered(t, in)
	way.set(true)
	began, quick := time.Now(), 0
	for quick < 20000 && time.Since(began) < patience {
		before := time.Now()
		got := ask(in, "echo", "x")
		if took := time.Since(before); took > patience/3 { // its timeout, and what a machine under load adds
			t.Fatalf("a request took %s", took)
		}
		switch {
		case got.err == nil:
			t.Fatal("a silent server answered")
		case errors.Is(got.err, natskit.ErrSilent) || errors.Is(got.err, natskit.ErrNotConnected):
			quick++
		case !errors.Is(got.err, natskit.ErrNoAnswer):
			t.Fatalf("got %v", got.err)
		}
	}
	if quick == 0 || conn.Err() == nil {
		t.Fatalf("%d requests were refused at once, connection %v", quick, conn.Err())
	}
	way.set(false)
	t.Logf("answers are back after %s", untilAnswered(t, in))
}

func TestConnectionThatClosesForGoodIsReplacedWithItsSubscriptions(t *testing.T) {
	t.Parallel()
	s := natstest.StartBare(t)
	service, client := s.Service(), s.Service()
	stop, err := service.Subscribe("echo", func(m *nats.Msg) { _ = m.Respond(m.Data) })
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	in := natskit.NewInbox(client, 50*time.Millisecond)
	untilAnswered(t, in)
	for _, conn := range []*natskit.Conn{service, client} {
		changed, stopListening := conn.Changed()
		before := conn.NATS()
		_ = before.Publish(strings.Repeat("x", 100<<10), nil) // the server answers "maximum control line exceeded" and closes
		for conn.NATS() == before {
			<-changed
		}
		stopListening()
		untilAnswered(t, in)
		if conn.Reconnects() == 0 {
			t.Error("the new connection was not counted")
		}
		if !before.IsClosed() {
			t.Error("the connection was not closed")
		}
	}
	if err := client.Publish(strings.Repeat("x", 100<<10), nil); !errors.Is(err, natskit.ErrSubject) {
		t.Errorf("a subject of 100 KB: %v", err)
	}
}

func TestReasonIsTold(t *testing.T) {
	t.Parallel()
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_ = silent.Close()
	conn, err := natskit.Connect("nats://"+silent.Addr().String(), "test", slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	for deadline := time.Now().Add(patience); !strings.Contains(conn.Err().Error(), "refused"); {
		if time.Now().After(deadline) {
			t.Fatalf("got %v", conn.Err())
		}
		runtime.Gosched()
	}
}
