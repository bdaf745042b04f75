package gateway

import (
	"bufio"
	"context"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/unloop/unloop/gateway/internal/decide/evidence"
	"github.com/unloop/unloop/gateway/internal/edge/admit"
	"github.com/unloop/unloop/gateway/internal/edge/forward"
	"github.com/unloop/unloop/gateway/internal/edge/intake"
	"github.com/unloop/unloop/gateway/internal/edge/respond"
	"github.com/unloop/unloop/gateway/internal/edge/serve"
	"github.com/unloop/unloop/gateway/internal/edge/stages"
	"github.com/unloop/unloop/gateway/internal/edge/wait"
	"github.com/unloop/unloop/gateway/internal/memory/cluster"
	"github.com/unloop/unloop/gateway/internal/memory/owed"
	"github.com/unloop/unloop/gateway/internal/rules/bundle"
	"github.com/unloop/unloop/gateway/internal/rules/policystore"
	"github.com/unloop/unloop/gateway/internal/share/limiter"
	"github.com/unloop/unloop/gateway/internal/wire/provider"
	"github.com/unloop/unloop/gateway/internal/wire/provider/plain"
	"github.com/unloop/unloop/gateway/internal/wire/request"
	"github.com/unloop/unloop/gateway/internal/wire/route"
	"github.com/unloop/unloop/schemas/kit/seal"
	"github.com/unloop/unloop/schemas/kit/service"
)

// pipes is a listener whose connections are in memory, so that they know the
// time of a test's bubble.
type pipes struct {
	conns  chan net.Conn
	closed chan struct{}
}

func newPipes() *pipes { return &pipes{make(chan net.Conn), make(chan struct{})} }

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case conn := <-p.conns:
		return conn, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error   { close(p.closed); return nil }
func (p *pipes) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)} }

func (p *pipes) dial() net.Conn {
	client, server := net.Pipe()
	p.conns <- server
	return client
}

// inMemory serves a handler as a gateway does, until the test ends.
func inMemory(t *testing.T, handler http.Handler) *pipes {
	t.Helper()
	p := newPipes()
	server := serve.NewServer(handler, slog.New(slog.DiscardHandler))
	done := make(chan struct{})
	go func() { defer close(done); _ = server.Serve(p) }()
	t.Cleanup(func() { _ = server.Close(); <-done })
	return p
}

// withoutCluster returns a gateway with all parts that need neither NATS nor a listener.
func withoutCluster(reg prometheus.Registerer) *Gateway {
	log := slog.New(slog.DiscardHandler)
	return &Gateway{
		metrics: newMetrics(reg), deps: service.Deps{Log: log}, now: time.Now, stages: stages.Stages{Gate: &admit.Gate{}, Memory: evidence.NewMemory()},
		bounds: bounds{waiting: wait.New(1, reg), bodies: intake.NewBodies(1<<30, reg), limiter: limiter.New(reg)},
		shared: cluster.New(nil, seal.Trust{}, time.Now, log), owed: owed.New(nil, time.Now), writer: respond.NewWriter(time.Now, reg),
	}
}

// proxyTo forwards to an upstream as a gateway does.
func proxyTo(t *testing.T, upstream *pipes) http.Handler {
	t.Helper()
	g := withoutCluster(prometheus.NewRegistry())
	transport, err := forward.NewTransport("")
	if err != nil {
		t.Fatal(err)
	}
	transport.DialContext = func(context.Context, string, string) (net.Conn, error) { return upstream.dial(), nil }
	t.Cleanup(transport.CloseIdleConnections)
	g.proxy = forward.New(transport, nil, g.deps.Log, prometheus.NewRegistry())
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer g.bodies.Watch(w, r, request.CallerOf(r)).Free()
		if r.URL.Path == "/refused" { // before anything is read
			respond.Refuse(w, r, request.New(r, route.Target{Format: plain.Format}).Provider, provider.Refusal{Status: http.StatusUnauthorized})
			return
		}
		req := request.New(r, route.Target{Format: plain.Format, Upstream: "openai", URL: &url.URL{Scheme: "http", Host: "upstream", Path: "/"}})
		var err error
		if req.Body, err = intake.Read(r, 1<<20); err != nil {
			respond.Refuse(w, r, req.Provider, intake.Refusal(err))
			return
		}
		e := &exchange{http: r, req: req, rules: &policystore.Rules{Set: &bundle.Set{}}}
		g.forward(w, g.openAccount(e), g.decide(e), nil)
	})
}

func TestAnswerThatTakesHoursArrivesWhole(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		upstream := inMemory(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body)
			<-time.After(3 * time.Hour) // it thinks
			_, _ = io.WriteString(w, "first ")
			_ = http.NewResponseController(w).Flush()
			<-time.After(3 * time.Hour) // and talks
			_, _ = io.WriteString(w, "last")
		}))
		conn := inMemory(t, proxyTo(t, upstream)).dial()
		defer func() { _ = conn.Close() }()
		go func() { _, _ = io.WriteString(conn, "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n{}") }()
		res, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = res.Body.Close() }()
		if text, err := io.ReadAll(res.Body); err != nil || string(text) != "first last" {
			t.Errorf("%q, %v", text, err)
		}
	})
}

func TestSlowBodyThatGoesOnArrivesWhole(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		got := make(chan string, 1)
		upstream := inMemory(t, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			text, _ := io.ReadAll(r.Body)
			got <- string(text)
		}))
		conn := inMemory(t, proxyTo(t, upstream)).dial()
		defer func() { _ = conn.Close() }()
		_, _ = io.WriteString(conn, "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 300\r\n\r\n")
		for range 300 {
			<-time.After(intake.IdleTime - time.Second)
			if _, err := io.WriteString(conn, "x"); err != nil {
				t.Fatal(err)
			}
		}
		if text := <-got; len(text) != 300 {
			t.Errorf("the upstream got %d bytes", len(text))
		}
	})
}

func TestClientThatStallsIsNotWaitedForEver(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		sent  string
		after time.Duration
		want  string
	}{
		"in its headers":         {"POST / HTTP/1.1\r\nHost: x\r\nX-Slow: ", serve.HeaderTimeout, ""},
		"in its request line":    {"G", serve.HeaderTimeout, "HTTP/1.1 400 Bad Request"},
		"in its body":            {"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\n{", intake.IdleTime, "HTTP/1.1 408 Request Timeout"},
		"between its requests":   {"", serve.HeaderTimeout, ""},
		"in its chunks":          {"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nab", intake.IdleTime, "HTTP/1.1 408 Request Timeout"},
		"after it was refused":   {"POST /refused HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\n{", intake.IdleTime, "HTTP/1.1 401 Unauthorized"},
		"before the first chunk": {"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n", intake.IdleTime, "HTTP/1.1 408 Request Timeout"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				upstream := inMemory(t, http.NotFoundHandler())
				conn := inMemory(t, proxyTo(t, upstream)).dial()
				defer func() { _ = conn.Close() }()
				began := time.Now()
				if _, err := io.WriteString(conn, c.sent); err != nil {
					t.Fatal(err)
				}
				answer, _ := io.ReadAll(conn)
				if waited := time.Since(began); waited < c.after || waited > c.after+5*time.Second {
					t.Errorf("the connection ended after %s, want %s", waited, c.after)
				}
				if status, _, _ := strings.Cut(string(answer), "\r\n"); status != c.want {
					t.Errorf("answered %q, want %q", status, c.want)
				}
			})
		})
	}
}
