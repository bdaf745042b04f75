package gateway

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httputil"
	"os"
	"sync"
	"time"

	"github.com/unloop/unloop/gateway/internal/answerscan"
	"github.com/unloop/unloop/gateway/internal/intake"
	"github.com/unloop/unloop/gateway/internal/provider"
	"github.com/unloop/unloop/gateway/internal/respond"
	"github.com/unloop/unloop/schemas/client"
)

// Timeouts towards upstreams. None limits how long an answer takes: a model
// may think for minutes.
const (
	dialTimeout         = 10 * time.Second
	tlsHandshakeTimeout = 10 * time.Second
	idleConnTimeout     = 90 * time.Second
	idleConnsPerHost    = 256
	copyBuffer          = 32 << 10
	// flushKnown bounds how long a part of an answer of known length waits for
	// the rest; most come whole, and a flush for each would cost two more system
	// calls. Streams, whose length nobody knows, are flushed chunk by chunk.
	flushKnown = 5 * time.Millisecond
	// An HTTP/2 connection that carries nothing for pingAfter is asked whether
	// it lives, so that a dead one is not waited for.
	pingAfter   = 30 * time.Second
	pingTimeout = 15 * time.Second
)

// exchangeKey is where the proxy finds the exchange of a request.
type exchangeKey struct{}

// newProxy returns the proxy that forwards exactly what came: no forwarding
// headers, the upstream's own Host, each chunk of a stream at once.
func (g *Gateway) newProxy(transport *http.Transport) *httputil.ReverseProxy {
	return &httputil.ReverseProxy{
		Rewrite:        g.rewrite,
		Transport:      transport,
		FlushInterval:  flushKnown,
		BufferPool:     &bufferPool{},
		ModifyResponse: g.onResponse,
		ErrorHandler:   g.onUpstreamError,
		ErrorLog:       slog.NewLogLogger(g.log.Handler(), slog.LevelDebug),
	}
}

// newTransport returns the connections to upstreams: HTTP/2 where they speak
// it over TLS, HTTP/1.1 elsewhere.
func newTransport(caFile string) (*http.Transport, error) {
	trusted, err := trustedCAs(caFile)
	return &http.Transport{
		Proxy:               http.ProxyFromEnvironment,
		DialContext:         (&net.Dialer{Timeout: dialTimeout, KeepAlive: 30 * time.Second}).DialContext,
		TLSHandshakeTimeout: tlsHandshakeTimeout,
		TLSClientConfig:     &tls.Config{RootCAs: trusted, MinVersion: tls.VersionTLS12},
		ForceAttemptHTTP2:   true,
		HTTP2:               &http.HTTP2Config{SendPingTimeout: pingAfter, PingTimeout: pingTimeout},
		MaxIdleConns:        0, // idleConnsPerHost is the limit that matters
		MaxIdleConnsPerHost: idleConnsPerHost,
		IdleConnTimeout:     idleConnTimeout,
		DisableCompression:  true, // the answer's encoding is between client and upstream
		WriteBufferSize:     copyBuffer,
		ReadBufferSize:      copyBuffer,
		// An upstream that wants a body is soon to say so; some never do.
		ExpectContinueTimeout: time.Second,
	}, err
}

// trustedCAs are the system's certificate authorities, as nil, or those with
// the ones in a PEM file.
func trustedCAs(file string) (*x509.CertPool, error) {
	if file == "" {
		return nil, nil
	}
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("read --upstream-ca: %w", err)
	}
	pool, err := x509.SystemCertPool()
	if err != nil {
		pool = x509.NewCertPool() // the machine has none
	}
	if !pool.AppendCertsFromPEM(data) {
		return nil, fmt.Errorf("read --upstream-ca %s: it holds no certificate in PEM", file)
	}
	return pool, nil
}

// rewrite undoes what the proxy does beyond hop-by-hop headers, which HTTP
// demands: it drops forwarding headers and queries that it can't parse.
func (g *Gateway) rewrite(pr *httputil.ProxyRequest) {
	x := pr.In.Context().Value(exchangeKey{}).(*exchange)
	pr.Out.URL = x.Target.URL
	pr.Out.Host = ""
	pr.Out.Header.Del(client.HeaderCheck) // it is for gateways
	for _, name := range []string{"Forwarded", "X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto"} {
		if values, sent := pr.In.Header[name]; sent {
			pr.Out.Header[name] = values
		}
	}
	pr.Out.Body = x.Body.Reader()
	if x.Body.Rest != nil && len(pr.Out.Trailer) > 0 {
		pr.Out.Body = trailing{pr.Out.Body, x.r, pr.Out}
	}
	if x.Body.Changed {
		pr.Out.ContentLength = x.Body.Length
		dropDigests(pr.Out.Header)
	}
	x.readable(pr.Out.Header)
	g.upstreamKeys.put(pr.Out, x.Target)
}

// dropDigests removes the headers that describe the bytes of the client's own body.
func dropDigests(h http.Header) {
	for _, name := range []string{"Content-Md5", "Content-Digest", "Repr-Digest", "Digest", "X-Goog-Hash"} {
		h.Del(name)
	}
}

// forward sends the request to its upstream and the answer to the client.
func (g *Gateway) forward(w http.ResponseWriter, x *exchange) {
	g.metrics.requests.WithLabelValues(x.Provider.Name(), x.out.Label).Inc()
	ctx := context.WithValue(x.r.Context(), exchangeKey{}, x)
	// A client that has the whole answer may leave before this is over, so its
	// context does not tell; the proxy panics where an answer broke off.
	delivered := false
	defer func() {
		if !delivered {
			g.uncount(x)
		}
	}()
	if x.Header.Get("Upgrade") != "" {
		g.upgraded.Add(1)
		defer g.upgraded.Done()
	}
	w.Header()["Content-Type"] = nil // net/http would guess one where the upstream sends none
	g.proxy.ServeHTTP(w, x.r.WithContext(ctx))
	delivered = true
}

// onResponse sees the upstream's answer before the client does.
func (g *Gateway) onResponse(res *http.Response) error {
	x := res.Request.Context().Value(exchangeKey{}).(*exchange)
	x.status = res.StatusCode
	intake.Hurry(x.r)
	g.allowPage(x, res.Header)
	x.out.Headers.Put(res.Header)
	watchers := g.followAnswer(x, res)
	res.Body = answerscan.Watch(res, append(watchers, g.watchUsage(x, res)...)...)
	if cameToNothing(res.StatusCode) {
		g.uncount(x)
	}
	return nil
}

// cameToNothing says whether an honest client would send the request again.
func cameToNothing(status int) bool {
	switch status {
	case http.StatusRequestTimeout, http.StatusConflict, http.StatusTooManyRequests:
		return true
	}
	return status >= http.StatusInternalServerError
}

// onUpstreamError answers for an upstream that did not.
func (g *Gateway) onUpstreamError(w http.ResponseWriter, r *http.Request, err error) {
	x := r.Context().Value(exchangeKey{}).(*exchange)
	g.uncount(x)
	switch {
	case intake.Broken(x.r):
		g.giveBack(x)
		g.refuse(w, x, intake.Refusal(err))
		return
	case r.Context().Err() != nil:
		x.status = respond.StatusClientLeft
		w.WriteHeader(x.status)
		return
	}
	g.metrics.upstreamErrors.WithLabelValues(x.Target.Upstream).Inc()
	g.log.Warn("upstream did not answer", "upstream", x.Target.Upstream, "host", x.Target.URL.Host, "error", bareError(err))
	x.out.Headers.Put(w.Header())
	g.giveBack(x)
	g.refuse(w, x, provider.Refusal{
		Status: http.StatusBadGateway, Code: "upstream_unreachable",
		Message: "the upstream " + x.Target.Upstream + " could not be reached",
	})
}

// bareError is an error's text unless it may quote what the client sent.
func bareError(err error) string {
	if op, ok := errors.AsType[*net.OpError](err); ok {
		return op.Error()
	}
	return "request failed"
}

// bufferPool shares the proxy's copy buffers.
type bufferPool struct{ pool sync.Pool }

func (p *bufferPool) Get() []byte {
	if b, ok := p.pool.Get().(*[copyBuffer]byte); ok {
		return b[:]
	}
	return make([]byte, copyBuffer)
}

func (p *bufferPool) Put(b []byte) { p.pool.Put((*[copyBuffer]byte)(b)) }
