package natstest

import (
	"log/slog"
	"net"
	"net/url"
	"sync"
	"time"

	"github.com/unloop/unloop/schemas/kit/natskit"
)

// Distant is Service with a longer round trip to the server.
func (s *Server) Distant(roundTrip time.Duration) *natskit.Conn {
	s.t.Helper()
	at, err := url.Parse(s.URL())
	if err != nil {
		s.t.Fatalf("parse %s: %v", s.URL(), err)
	}
	at.Host = s.delay(at.Host, roundTrip/2)
	c, err := natskit.Connect(at.String(), s.t.Name(), slog.New(slog.DiscardHandler))
	if err != nil {
		s.t.Fatalf("connect to NATS: %v", err)
	}
	s.t.Cleanup(c.Close)
	return c
}

// delay starts a TCP proxy to the address that delays data in both directions, and returns
// its own address.
func (s *Server) delay(address string, by time.Duration) string {
	s.t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		s.t.Fatalf("listen: %v", err)
	}
	s.t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			near, err := l.Accept()
			if err != nil {
				return
			}
			go join(near, address, by)
		}
	}()
	return l.Addr().String()
}

// join copies in both directions until one end is gone.
func join(near net.Conn, address string, by time.Duration) {
	defer func() { _ = near.Close() }()
	far, err := net.Dial("tcp", address) //nolint:noctx // it ends with the near end
	if err != nil {
		return
	}
	defer func() { _ = far.Close() }()
	var both sync.WaitGroup
	both.Go(func() { pass(far, near, by) })
	both.Go(func() { pass(near, far, by) })
	both.Wait()
}

// piece is the data of one read, and the time at which it is due at the other end.
type piece struct {
	data []byte
	due  time.Time
}

// pass copies data from one end to the other, and closes both at the end.
func pass(to, from net.Conn, by time.Duration) {
	const depth = 1024
	pieces := make(chan piece, depth)
	go func() {
		defer close(pieces)
		for {
			buf := make([]byte, 64<<10)
			n, err := from.Read(buf)
			if n > 0 {
				pieces <- piece{buf[:n], time.Now().Add(by)}
			}
			if err != nil {
				return
			}
		}
	}()
	for p := range pieces {
		<-time.After(time.Until(p.due))
		if _, err := to.Write(p.data); err != nil {
			break
		}
	}
	_, _ = to.Close(), from.Close()
	for range pieces { // until the reader has seen the end
	}
}
