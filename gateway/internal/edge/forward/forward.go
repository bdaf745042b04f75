// Package forward sends requests to their upstreams and the answers to the clients, byte for
// byte: without forwarding headers, with the upstream's own Host, each chunk of a stream at
// once. It sets the keys of upstreams, and repairs and hints bodies.
//
// It knows no policies, decisions or costs: its Observer sees the answers.
package forward

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptrace"
	"net/http/httputil"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/unloop/unloop/gateway/internal/wire/answerscan"
	"github.com/unloop/unloop/gateway/internal/wire/encoding"
	"github.com/unloop/unloop/gateway/internal/wire/provider"
	"github.com/unloop/unloop/gateway/internal/wire/request"
	"github.com/unloop/unloop/gateway/internal/wire/route"
	"github.com/unloop/unloop/schemas/client"
	"github.com/unloop/unloop/schemas/kit/metric"
)

const (
	// copyBuffer is the size of the buffers through which answers are copied, in bytes.
	copyBuffer = 32 << 10
	// flushKnown is the flush interval for answers of known length: most come whole, and each
	// flush costs two system calls. Streams have no known length; each chunk is flushed.
	flushKnown = 5 * time.Millisecond
)

// Request is a request to forward.
type Request struct {
	Target route.Target
	Body   *request.Body
	// Readable is set if the gateway reads the answer, so that the upstream must use a
	// content coding that it knows.
	Readable bool
	// Trace are the headers of a trace context, which replace the client's; nil leaves
	// those as they are.
	Trace    http.Header
	Observer Observer
	// ended is set after the last event of a stream.
	ended bool
	// to counts the answer; began is the time of sending.
	to    *upstreamMetrics
	began time.Time
}

// Observer follows the forwarding of a request.
type Observer interface {
	// Answered is called with the upstream's answer, which it may change, before the client
	// gets it.
	Answered(res *http.Response)
	// Failed answers the client if the upstream did not.
	Failed(w http.ResponseWriter, err error)
	// Sent is called when the request's body is no longer held, perhaps by another goroutine.
	// It is not called for every request.
	Sent()
	// Broken is called if the client did not get the whole answer.
	Broken()
}

// Proxy forwards requests. Make it with New.
type Proxy struct {
	keys    Keys
	reverse httputil.ReverseProxy
	log     *slog.Logger
	metrics *upstreams
	// hints and repairs count the changes of bodies.
	hints, repairs *prometheus.CounterVec
	// upgraded counts the connections that were switched to another protocol. The HTTP server
	// does not wait for them.
	upgraded sync.WaitGroup
}

// New returns a proxy over a transport.
func New(transport http.RoundTripper, keys Keys, log *slog.Logger, reg prometheus.Registerer) *Proxy {
	p := &Proxy{
		keys: keys, log: log, metrics: newUpstreams(reg),
		hints:   metric.Counters(reg, "unloop_gateway_hints_total", "Hints by result: given, or no-place if the request has no place for one.", "result"),
		repairs: metric.Counters(reg, "unloop_gateway_repairs_total", "Repairs of broken histories, by kind.", "kind"),
	}
	p.reverse = httputil.ReverseProxy{
		Rewrite:       p.rewrite,
		Transport:     again{transport},
		FlushInterval: flushKnown,
		BufferPool:    &buffers{},
		ModifyResponse: func(res *http.Response) error {
			out := requestOf(res.Request)
			out.to.answered(res.StatusCode, time.Since(out.began))
			out.Observer.Answered(res)
			callOf(res.Request).over()
			if answerscan.IsStream(res.Header) {
				res.Body = answerscan.Last(res, &out.ended)
			}
			return nil
		},
		ErrorHandler: func(w http.ResponseWriter, r *http.Request, err error) { requestOf(r).Observer.Failed(w, err) },
		ErrorLog:     slog.NewLogLogger(log.Handler(), slog.LevelDebug),
	}
	return p
}

// call is the context of a forwarded request. It holds the Request itself, which saves the
// allocation of another context.
type call struct {
	context.Context
	Request
	sending
}

// callKey is the key of the call in itself.
type callKey struct{}

// Value returns the call, or a value of the client's request.
func (c *call) Value(key any) any {
	if key == (callKey{}) {
		return c
	}
	return c.Context.Value(key)
}

func callOf(r *http.Request) *call { return r.Context().Value(callKey{}).(*call) }

func requestOf(r *http.Request) *Request { return &callOf(r).Request }

// Forward sends the request r, as out describes it, to its upstream, and the answer to the
// client. It panics with http.ErrAbortHandler where the answer broke off.
func (p *Proxy) Forward(w http.ResponseWriter, r *http.Request, out Request) {
	delivered := false
	out.to, out.began = p.metrics.of(out.Target.Upstream), time.Now()
	x := &call{Context: r.Context(), Request: out}
	// A client that has the whole answer may leave before this returns, so a canceled context
	// does not mean that the answer was lost.
	defer func() {
		if !delivered && !x.ended {
			x.Observer.Broken()
		}
	}()
	if r.Header.Get("Upgrade") != "" {
		p.upgraded.Add(1)
		defer p.upgraded.Done()
	}
	w.Header()["Content-Type"] = nil // net/http would guess one where the upstream sends none
	p.reverse.ServeHTTP(&keeping{w, maps.Clone(w.Header())}, r.WithContext(httptrace.WithClientTrace(x, &httptrace.ClientTrace{GotConn: x.connected, WroteRequest: x.wrote})))
	delivered = true
}

// keeping is a writer that restores its initial headers when the final answer begins: the
// reverse proxy clears them after each informational one.
type keeping struct {
	http.ResponseWriter
	own http.Header
}

// Unwrap returns the writer below, for http.ResponseController.
func (w *keeping) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// WriteHeader writes the headers of an answer, or of an informational one before it.
func (w *keeping) WriteHeader(status int) {
	h := w.Header()
	for name, values := range w.own {
		if _, set := h[name]; !set && (status >= http.StatusOK || status == http.StatusSwitchingProtocols) {
			h[name] = values
		}
	}
	w.ResponseWriter.WriteHeader(status)
}

// Wait returns when no upgraded connection is open.
func (p *Proxy) Wait() { p.upgraded.Wait() }

// rewrite makes the upstream's request. HTTP demands that hop-by-hop headers are removed.
// httputil also drops forwarding headers, and queries that it can't parse; rewrite restores
// both.
func (p *Proxy) rewrite(pr *httputil.ProxyRequest) {
	x := callOf(pr.In)
	out := &x.Request
	pr.Out.URL = out.Target.URL
	pr.Out.Host = ""
	pr.Out.Header.Del(client.HeaderCheck) // it is for gateways
	for _, name := range []string{"Forwarded", "X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto"} {
		if values, sent := pr.In.Header[name]; sent {
			pr.Out.Header[name] = values
		}
	}
	pr.Out.Body = out.Body.Reader()
	if len(out.Body.Bytes) > 0 && out.Body.Rest == nil {
		x.body = bytes.NewReader(out.Body.Bytes)
		pr.Out.Body = io.NopCloser(x.body) // of types that net/http knows to be in memory
		pr.Out.GetBody = func() (io.ReadCloser, error) { return out.Body.Reader(), nil }
	}
	if out.Body.Rest != nil && len(pr.Out.Trailer) > 0 {
		pr.Out.Body = trailing{pr.Out.Body, pr.In, pr.Out}
	}
	if out.Body.Changed {
		pr.Out.ContentLength = out.Body.Length
		dropDigests(pr.Out.Header)
	}
	if accepted, sent := pr.Out.Header["Accept-Encoding"]; sent && out.Readable {
		pr.Out.Header["Accept-Encoding"] = []string{encoding.Accept(accepted)}
	}
	if out.Trace != nil {
		pr.Out.Header.Del("Tracestate") // it belongs to the client's traceparent
		maps.Copy(pr.Out.Header, out.Trace)
	}
	p.keys.put(pr.Out, out.Target)
}

// dropDigests removes the headers with digests of the client's own body.
func dropDigests(h http.Header) {
	for _, name := range []string{"Content-Md5", "Content-Digest", "Repr-Digest", "Digest", "X-Goog-Hash"} {
		h.Del(name)
	}
}

// Unreachable counts and logs a failure of an upstream, and returns the refusal for the
// client.
func (p *Proxy) Unreachable(t route.Target, err error) provider.Refusal {
	p.metrics.of(t.Upstream).failures.Inc()
	why := cause(err)
	p.log.Warn("upstream did not answer", "upstream", t.Upstream, "host", t.URL.Host, "cause", why)
	return provider.Refusal{
		Status: http.StatusBadGateway, Code: "upstream_unreachable",
		Message: "the upstream " + t.Upstream + " at " + t.URL.Host + " could not be reached: " + why,
	}
}

// trailing is a body that is forwarded while it arrives, with its trailers, which are known
// at its end.
type trailing struct {
	io.ReadCloser
	from, to *http.Request
}

func (t trailing) Read(p []byte) (int, error) {
	n, err := t.ReadCloser.Read(p)
	if errors.Is(err, io.EOF) {
		for name, values := range t.from.Trailer {
			if _, announced := t.to.Trailer[name]; announced {
				t.to.Trailer[name] = values
			}
		}
	}
	return n, err
}

// buffers is a pool of buffers for answers.
type buffers struct{ pool sync.Pool }

func (p *buffers) Get() []byte {
	if b, ok := p.pool.Get().(*[copyBuffer]byte); ok {
		return b[:]
	}
	return make([]byte, copyBuffer)
}

func (p *buffers) Put(b []byte) { p.pool.Put((*[copyBuffer]byte)(b)) }
