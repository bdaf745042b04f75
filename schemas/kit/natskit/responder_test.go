package natskit_test

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nats.go/micro"

	"github.com/unloop/unloop/schemas/kit/natskit"
	"github.com/unloop/unloop/schemas/kit/natstest"
)

func TestRespondersAnswerAndEnd(t *testing.T) {
	t.Parallel()
	s := natstest.StartBare(t)
	server, client := s.Service(), s.Service()
	unexpected := make(chan string, 1)
	echo := func(r natskit.Request) {
		if !r.Expected() {
			unexpected <- string(r.Data)
		}
		if err := r.Respond(append([]byte("echo "), r.Data...)); err != nil {
			t.Error(err)
		}
	}
	stop, err := server.Respond(micro.Config{Name: "echo", Version: "1.0.0", QueueGroup: "echo"}, natskit.Responder{Name: "echo", Subject: "test.echo", Handle: echo})
	if err != nil {
		t.Fatal(err)
	}
	server.Flush(patience)
	in := natskit.NewInbox(client, patience)
	if r := ask(in, "test.echo", "hello"); r.data != "echo hello" || r.err != nil {
		t.Errorf("got %+v", r)
	}
	if in.Near("test.echo") {
		t.Error("a responder elsewhere is taken for one in the process")
	}
	if err := client.Publish("test.echo", []byte("no reply")); err != nil {
		t.Error(err)
	}
	if got := <-unexpected; got != "no reply" {
		t.Errorf("got %q", got)
	}
	if _, err := server.Respond(micro.Config{Name: "no name", Version: "1.0.0"}); err == nil || !strings.Contains(err.Error(), "register no name") {
		t.Errorf("a service with a bad name: %v", err)
	}
	if _, err := server.Respond(micro.Config{Name: "x", Version: "1.0.0"}, natskit.Responder{Name: "x", Subject: "a b", Handle: echo}); err == nil || !strings.Contains(err.Error(), "subscribe to a b") {
		t.Errorf("a bad subject: %v", err)
	}
	stop()
	server.CatchUp(patience)
	if r := ask(in, "test.echo", "again"); !errors.Is(r.err, natskit.ErrNoResponder) {
		t.Errorf("after the end: %+v", r)
	}
}

func TestRespondersInTheProcessAreNear(t *testing.T) {
	t.Parallel()
	s := natstest.StartBare(t)
	near := natskit.NewInProcess()
	in := natskit.NewInbox(s.Service(), patience).Prefer(near)
	stop := near.Serve("test.near", func(r natskit.Request) { _ = r.Respond([]byte("near")) })
	if r := ask(in, "test.near", ""); r.data != "near" || !in.Near("test.near") || in.Near("test.far") {
		t.Errorf("got %+v", r)
	}
	stop()
	if in.Near("test.near") {
		t.Error("a responder that has ended is near")
	}
	var none *natskit.InProcess
	none.Serve("test.near", nil)()
	if natskit.NewInbox(s.Service(), time.Second).Near("test.near") {
		t.Error("without responders in the process one is near")
	}
}

func TestSubjectsThatAServerWouldRefuse(t *testing.T) {
	t.Parallel()
	c := natstest.StartBare(t).Service()
	if err := c.Publish(strings.Repeat("x", 2000), nil); !errors.Is(err, natskit.ErrSubject) {
		t.Errorf("got %v", err)
	}
	c.Close()
	if err := c.Publish("x", nil); !errors.Is(err, natskit.ErrNotConnected) || c.Up() {
		t.Errorf("after the end: %v", err)
	}
}

func TestBorrowedConnections(t *testing.T) {
	t.Parallel()
	s := natstest.Start(t)
	nc, err := s.Attach()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	got := make(chan string, 1)
	if _, err := nc.Subscribe("test.borrowed", func(m *nats.Msg) { got <- string(m.Data) }); err != nil {
		t.Fatal(err)
	}
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	c := natskit.Borrow(js)
	if err := c.Publish("test.borrowed", []byte("hello")); err != nil {
		t.Fatal(err)
	}
	if text := <-got; text != "hello" {
		t.Errorf("got %q", text)
	}
	at, err := c.ServerTime(t.Context())
	if err != nil || time.Since(at).Abs() > time.Minute {
		t.Errorf("the server's time is %v, %v", at, err)
	}
	c.Close()
	if nc.IsClosed() {
		t.Error("a borrowed connection was closed")
	}
	if _, err := c.ServerTime(t.Context()); err == nil {
		t.Error("the time of a closed connection is known")
	}
}

func TestTheLastWriteIsKnown(t *testing.T) {
	t.Parallel()
	c := natstest.Start(t).Service()
	if at := c.LastWrite(); !at.IsZero() {
		t.Errorf("before the first write: %v", at)
	}
	c.Wrote("KV_LOOP_COUNTERS", nil)
	if at := c.LastWrite(); time.Since(at) > time.Minute {
		t.Errorf("after a write: %v", at)
	}
	full := errors.New("no space")
	c.Wrote("KV_LOOP_COUNTERS", full)
	c.Wrote("KV_LOOP_COUNTERS", full)
	if err := c.Ready(); !errors.Is(err, full) {
		t.Errorf("after a refused write: %v", err)
	}
	c.Wrote("KV_LOOP_COUNTERS", nil)
	if err := c.Ready(); err != nil {
		t.Errorf("after it is mended: %v", err)
	}
}

func TestStreamsAreWaitedForUntilTheContextEnds(t *testing.T) {
	t.Parallel()
	c, err := natskit.Connect("nats://127.0.0.1:1", t.Name(), slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	if err := c.EnsureStreams(ctx, natskit.Layout{}); err == nil {
		t.Error("streams were made without a server")
	}
	if _, err := natskit.Connect("nats://a b", t.Name(), slog.New(slog.DiscardHandler)); err == nil || strings.Contains(err.Error(), "a b") {
		t.Errorf("a malformed URL: %v", err)
	}
}
