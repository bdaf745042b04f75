package forward

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"time"
)

// Timeouts for upstreams. None bounds the time of an answer: a model may think for minutes.
const (
	dialTimeout         = 10 * time.Second
	tlsHandshakeTimeout = 10 * time.Second
	idleConnTimeout     = 90 * time.Second
	idleConnsPerHost    = 256
	// writeBuffer is the size of a connection's write buffer in bytes. Most requests fit in
	// it with their headers, and so take one system call. Each open stream has one.
	writeBuffer = 16 << 10
	// An HTTP/2 connection that is idle for pingAfter gets a ping, so that dead ones are
	// noticed.
	pingAfter   = 30 * time.Second
	pingTimeout = 15 * time.Second
)

// NewTransport returns the transport for upstreams: HTTP/2 over TLS if they speak it, else
// HTTP/1.1. caFile has CA certificates that are trusted in addition to the system's; "" for
// none.
func NewTransport(caFile string) (*http.Transport, error) {
	trusted, err := trustedCAs(caFile)
	return &http.Transport{
		Proxy:               http.ProxyFromEnvironment,
		DialContext:         dial,
		TLSHandshakeTimeout: tlsHandshakeTimeout,
		TLSClientConfig:     &tls.Config{RootCAs: trusted, MinVersion: tls.VersionTLS12},
		ForceAttemptHTTP2:   true,
		HTTP2:               &http.HTTP2Config{SendPingTimeout: pingAfter, PingTimeout: pingTimeout},
		MaxIdleConns:        0, // idleConnsPerHost is the limit that matters
		MaxIdleConnsPerHost: idleConnsPerHost,
		IdleConnTimeout:     idleConnTimeout,
		DisableCompression:  true, // the answer's encoding is between client and upstream
		WriteBufferSize:     writeBuffer,
		// Some upstreams that want the body never say so.
		ExpectContinueTimeout: time.Second,
	}, err
}

// dial returns a connection to an upstream.
func dial(ctx context.Context, network, addr string) (net.Conn, error) {
	c, err := (&net.Dialer{Timeout: dialTimeout, KeepAlive: 30 * time.Second}).DialContext(ctx, network, addr)
	if tcp, ok := c.(*net.TCPConn); ok {
		return direct{tcp}, err
	}
	return c, err
}

// direct is a connection that writes a body in memory without copying it. net/http wraps a
// body of known length in an io.LimitedReader, which would be copied 32 KB at a time.
type direct struct{ *net.TCPConn }

// ReadFrom implements io.ReaderFrom.
func (c direct) ReadFrom(r io.Reader) (int64, error) {
	body, limited := r.(*io.LimitedReader)
	if !limited {
		return c.TCPConn.ReadFrom(r)
	}
	memory, ok := body.R.(io.WriterTo)
	if !ok {
		return c.TCPConn.ReadFrom(r)
	}
	return memory.WriteTo(upTo{c.TCPConn, &body.N})
}

// upTo is a writer for at most left bytes.
type upTo struct {
	io.Writer
	left *int64
}

func (w upTo) Write(p []byte) (n int, err error) {
	n, err = w.Writer.Write(p[:min(int64(len(p)), *w.left)])
	if *w.left -= int64(n); err == nil && n < len(p) {
		err = io.ErrShortWrite
	}
	return n, err
}

// trustedCAs returns the system's CA certificates and those in a PEM file; nil means only
// the system's.
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
