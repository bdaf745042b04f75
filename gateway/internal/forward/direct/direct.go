// Package direct sends requests over HTTP/1.1 connections without TLS, in the goroutine
// that asks: it writes the request, and then reads the answer. A http.Transport has two
// goroutines for each connection, which cost a request more than its bytes do, and an open
// stream their stacks and buffers.
//
// It takes requests whose bodies are in memory and short, and hands all others to another
// transport. Requests are written and answers read by net/http. It knows neither upstreams
// nor what is in a request.
package direct

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/textproto"
	"net/url"
	"sync"
	"time"
)

const (
	// MaxBody is the length of the longest body that is taken, in bytes: the buffers of a
	// connection hold it, so that a server which answers early does not block its request.
	MaxBody = 64 << 10
	// maxHeader bounds the header of an answer, in bytes, as http.Transport does.
	maxHeader = 10 << 20
	// lastAnswer is how long an answer may take after the request could not be written: a
	// server may have refused it before it came whole.
	lastAnswer = 50 * time.Millisecond
)

// Config is what a Transport is made of.
type Config struct {
	// Next takes the requests that are not taken.
	Next http.RoundTripper
	Dial func(ctx context.Context, network, addr string) (net.Conn, error)
	// Proxy returns the proxy for a request; nil for none.
	Proxy func(*http.Request) (*url.URL, error)
	// Idle connections are closed after IdleTimeout, and where there are more of a host
	// than IdlePerHost.
	IdleTimeout time.Duration
	IdlePerHost int
}

// Transport implements http.RoundTripper. Make it with New.
type Transport struct {
	Config
	pool pool
	// texts are buffers for requests (*bytes.Buffer).
	texts sync.Pool
}

// New returns a transport without connections.
func New(cfg Config) *Transport {
	return &Transport{Config: cfg, pool: pool{idle: map[string][]*conn{}, timeout: cfg.IdleTimeout, most: cfg.IdlePerHost}}
}

// CloseIdleConnections closes the connections that carry nothing, those of the other
// transport included.
func (t *Transport) CloseIdleConnections() {
	t.pool.closeAll()
	if next, ok := t.Next.(interface{ CloseIdleConnections() }); ok {
		next.CloseIdleConnections()
	}
}

// RoundTrip implements http.RoundTripper.
func (t *Transport) RoundTrip(req *http.Request) (*http.Response, error) {
	if !t.takes(req) {
		return t.Next.RoundTrip(req)
	}
	text := t.text()
	if err := req.Write(text); err != nil {
		t.free(text)
		return nil, fmt.Errorf("write request: %w", err)
	}
	addr, once := address(req.URL), !replayable(req)
	for {
		c, err := t.connect(req.Context(), addr)
		if err != nil {
			t.free(text)
			return nil, err
		}
		x := t.begin(c, req)
		if unsent := x.write(text.Bytes()); once && !unsent {
			t.free(text) // an answer may take minutes
			text = nil
		}
		res, err := x.answer(req)
		if err == nil || text == nil || !c.used || !again(req, err) {
			t.free(text)
			return res, err
		}
	}
}

// takes reports whether a request is taken.
func (t *Transport) takes(req *http.Request) bool {
	if !supported || req.URL == nil || req.URL.Scheme != "http" || req.URL.Host == "" || !isASCII(req.URL.Host) || req.Method == http.MethodConnect {
		return false
	}
	body := req.Body == nil || req.Body == http.NoBody
	if !body && (req.ContentLength <= 0 || req.ContentLength > MaxBody) || len(req.TransferEncoding)+len(req.Trailer) > 0 {
		return false
	}
	if req.Header["Expect"] != nil || req.Header["Upgrade"] != nil {
		return false
	}
	if t.Proxy == nil {
		return true
	}
	proxy, err := t.Proxy(req)
	return proxy == nil && err == nil
}

func isASCII(s string) bool {
	for i := range len(s) {
		if s[i] >= 0x80 {
			return false
		}
	}
	return true
}

// address returns the host and port of a URL.
func address(u *url.URL) string {
	if u.Port() != "" {
		return u.Host
	}
	return net.JoinHostPort(u.Hostname(), "80")
}

// connect returns an idle connection, or a new one.
func (t *Transport) connect(ctx context.Context, addr string) (*conn, error) {
	if c := t.pool.take(addr); c != nil {
		return c, nil
	}
	nc, err := t.Dial(ctx, "tcp", addr)
	if err != nil {
		return nil, err
	}
	return newConn(nc, addr)
}

// begin returns the exchange of a request over a connection, which is closed if the exchange
// fails, and when the request's context ends.
func (t *Transport) begin(c *conn, req *http.Request) *exchange {
	ctx := req.Context()
	return &exchange{c: c, to: &t.pool, ctx: ctx, stop: context.AfterFunc(ctx, c.closing)}
}

// unsentError says that nothing of a request was written.
type unsentError struct{ error }

func (e *unsentError) Unwrap() error { return e.error }

// silentError says that a connection ended before anything of an answer came.
type silentError struct{ error }

func (e *silentError) Unwrap() error { return e.error }

// again reports whether a request is sent again over another connection, since the server
// closed the one that it was sent over as it became idle: if the server has seen nothing of
// it, or may get it twice.
func again(req *http.Request, err error) bool {
	if _, unsent := errors.AsType[*unsentError](err); unsent {
		return true
	}
	_, silent := errors.AsType[*silentError](err)
	return silent && replayable(req)
}

// replayable reports whether a server may get a request twice.
func replayable(req *http.Request) bool {
	switch req.Method {
	case "", http.MethodGet, http.MethodHead, http.MethodOptions, http.MethodTrace:
		return true
	}
	return req.Header["Idempotency-Key"] != nil || req.Header["X-Idempotency-Key"] != nil
}

// usualText is the capacity of a new buffer for a request.
const usualText = 16 << 10

func (t *Transport) text() *bytes.Buffer {
	if b, ok := t.texts.Get().(*bytes.Buffer); ok {
		return b
	}
	return bytes.NewBuffer(make([]byte, 0, usualText))
}

func (t *Transport) free(b *bytes.Buffer) {
	if b != nil && b.Cap() <= 4*MaxBody {
		b.Reset()
		t.texts.Put(b)
	}
}

// told passes an answer before the real one on to whoever waits for it.
func told(req *http.Request, res *http.Response) error {
	trace := httptrace.ContextClientTrace(req.Context())
	if trace == nil || trace.Got1xxResponse == nil {
		return nil
	}
	return trace.Got1xxResponse(res.StatusCode, textproto.MIMEHeader(res.Header))
}
