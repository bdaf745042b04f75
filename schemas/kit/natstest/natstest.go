// Package natstest gives tests a real NATS server with JetStream, stopped and
// cleaned up when the test ends. It knows nothing but natskit.
package natstest

import (
	"log/slog"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/unloop/unloop/schemas/kit/freeport"
	"github.com/unloop/unloop/schemas/kit/natskit"
)

// patience is the timeout of tests' requests; machines under load need more than the client's
// default.
const patience = 30 * time.Second

// room is the store limit of each server: streams reserve their bounds, whatever the disk
// has.
const room = 64 << 30

// Server is a running server that belongs to one test.
type Server struct {
	*natskit.Embedded
	t testing.TB
}

// Start returns a server on a random port with its store in the test's own
// folder, and the streams and buckets of the contract on it.
func Start(t testing.TB) *Server {
	t.Helper()
	s := StartBare(t)
	c := s.Service()
	defer c.Close()
	if err := c.EnsureStreams(t.Context(), s.Layout()); err != nil {
		t.Fatalf("ensure streams: %v", err)
	}
	return s
}

// FreeAddr returns a loopback address for a server that listens later, or again after a
// restart. It is reserved until the test ends.
func FreeAddr(t testing.TB) string {
	t.Helper()
	addr, release, err := freeport.Reserve()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(release)
	return addr
}

// StartBare returns a server without streams.
func StartBare(t testing.TB) *Server {
	t.Helper()
	e, err := natskit.StartEmbedded(natskit.EmbeddedConfig{Listen: "127.0.0.1:0", DataDir: t.TempDir(), MaxStore: room}, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatalf("start NATS: %v", err)
	}
	t.Cleanup(e.Stop)
	return &Server{Embedded: e, t: t}
}

// Conn returns a client's connection over loopback that closes with the test.
func (s *Server) Conn() *nats.Conn {
	s.t.Helper()
	nc, err := nats.Connect(s.URL(), nats.Name(s.t.Name()), nats.Timeout(patience))
	if err != nil {
		s.t.Fatalf("connect to NATS: %v", err)
	}
	s.t.Cleanup(nc.Close)
	return nc
}

// Service returns a service's connection over loopback that closes with the test.
func (s *Server) Service() *natskit.Conn {
	s.t.Helper()
	c, err := natskit.Connect(s.URL(), s.t.Name(), slog.New(slog.DiscardHandler))
	if err != nil {
		s.t.Fatalf("connect to NATS: %v", err)
	}
	s.t.Cleanup(c.Close)
	return c
}

// JetStream returns a JetStream context on a connection of its own.
func (s *Server) JetStream() jetstream.JetStream {
	s.t.Helper()
	js, err := jetstream.New(s.Conn(), jetstream.WithDefaultTimeout(patience))
	if err != nil {
		s.t.Fatalf("open JetStream: %v", err)
	}
	return js
}
