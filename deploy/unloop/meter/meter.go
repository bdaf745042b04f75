// Package meter counts the requests of one command to a gateway, and their outcomes. It is a
// reverse proxy between the two, because a gateway serves other clients, too.
//
// It reads only the headers of responses. It does not know wire formats, policies or loops.
package meter

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"sync"
	"time"
)

// Reasons why a gateway stops a request.
const (
	ByLoop     = "loop"
	ByOperator = "operator"
	ByRule     = "rule"
	Unchecked  = "unchecked"
)

// Counts are the requests of a command.
type Counts struct {
	// Requests is the number of all requests.
	Requests int
	// Stopped counts the requests that the gateway answered itself, by reason.
	Stopped map[string]int
	// Failed counts the other requests with an error response, by status.
	Failed map[int]int
	// Unanswered counts the requests without a response, because the client or the gateway
	// went away.
	Unanswered int
}

// Meter is a reverse proxy in front of a gateway. Make it with Start.
type Meter struct {
	gateway  *url.URL
	listener net.Listener
	server   *http.Server

	mu     sync.Mutex
	counts Counts
}

// Start listens on a free loopback port and forwards to the gateway until Close.
func Start(ctx context.Context, gateway string) (*Meter, error) {
	target, err := url.Parse(gateway)
	if err != nil {
		return nil, fmt.Errorf("read the gateway's address: %w", err)
	}
	var free net.ListenConfig
	ln, err := free.Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("listen for the command's requests: %w", err)
	}
	m := &Meter{gateway: target, listener: ln, counts: Counts{Stopped: map[string]int{}, Failed: map[int]int{}}}
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.DisableCompression = true // client and gateway agree on the encoding
	transport.MaxIdleConnsPerHost = 256
	quiet := slog.NewLogLogger(slog.DiscardHandler, slog.LevelDebug)
	m.server = &http.Server{ReadHeaderTimeout: time.Minute, ErrorLog: quiet, Handler: &httputil.ReverseProxy{
		Rewrite: m.rewrite, Transport: transport, FlushInterval: -1, ErrorLog: quiet,
		ModifyResponse: func(res *http.Response) error { m.answered(res); return nil },
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, _ error) {
			m.unanswered()
			w.WriteHeader(http.StatusBadGateway)
		},
	}}
	go func() { _ = m.server.Serve(ln) }() // it ends with Close
	return m, nil
}

// URL returns the address that the command uses in place of the gateway's.
func (m *Meter) URL() string { return "http://" + m.listener.Addr().String() }

// Close stops the proxy and closes its connections.
func (m *Meter) Close() error {
	if err := m.server.Close(); err != nil && !errors.Is(err, net.ErrClosed) {
		return fmt.Errorf("close the meter: %w", err)
	}
	return nil
}

// Counts returns the counts so far.
func (m *Meter) Counts() Counts {
	m.mu.Lock()
	defer m.mu.Unlock()
	c := m.counts
	c.Stopped, c.Failed = maps.Clone(c.Stopped), maps.Clone(c.Failed)
	return c
}

// rewrite redirects a request to the gateway. It preserves forwarding headers, the query, and
// a Host that does not name this port: the gateway must see what a web page sends.
func (m *Meter) rewrite(pr *httputil.ProxyRequest) {
	pr.SetURL(m.gateway)
	pr.Out.URL.RawQuery = pr.In.URL.RawQuery
	pr.Out.Host = pr.In.Host
	if pr.In.Host == m.listener.Addr().String() {
		pr.Out.Host = m.gateway.Host
	}
	for _, name := range []string{"Forwarded", "X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto"} {
		if values, sent := pr.In.Header[name]; sent {
			pr.Out.Header[name] = values
		}
	}
}

func (m *Meter) answered(res *http.Response) {
	reason := stopped(res)
	m.mu.Lock()
	defer m.mu.Unlock()
	m.counts.Requests++
	switch {
	case reason != "":
		m.counts.Stopped[reason]++
	case res.StatusCode >= http.StatusBadRequest:
		m.counts.Failed[res.StatusCode]++
	}
}

func (m *Meter) unanswered() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.counts.Requests++
	m.counts.Unanswered++
}

// stopped returns why the gateway did not forward a request; "" if it did.
func stopped(res *http.Response) string {
	stops := func(action string) bool { return action == "reject" || action == "break" }
	h := res.Header
	switch {
	case h.Get("X-Loop-Reason") == "kill_switch":
		return ByOperator
	case stops(h.Get("X-Loop-Rule-Action")):
		return ByRule
	case stops(h.Get("X-Loop-Action")):
		return ByLoop
	case res.StatusCode == http.StatusServiceUnavailable && h.Get("X-Loop-Degraded") != "":
		return Unchecked
	}
	return ""
}
