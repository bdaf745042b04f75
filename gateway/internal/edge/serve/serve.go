// Package serve answers clients over HTTP until it is stopped, and then lets the
// requests in flight finish.
//
// It does not know what the requests are.
package serve

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/unloop/unloop/schemas/kit/service"
)

const (
	// HeaderTimeout is how long a client may take to send its headers, or nothing on a
	// new connection.
	HeaderTimeout = 10 * time.Second
	idleTimeout   = 2 * time.Minute
)

// Config says how requests are served.
type Config struct {
	Handler http.Handler
	Log     *slog.Logger
	// RPC says that requests are calls of gRPC: over HTTP/2, which needs no TLS then.
	RPC bool
	// Draining is called when the server is stopped.
	Draining func()
	// Delay is how long requests are still accepted after that, and Grace how long those
	// in flight may take then.
	Delay, Grace time.Duration
}

// Until serves until the context ends, then lets the requests in flight finish.
func Until(ctx context.Context, listener net.Listener, cfg Config) error {
	requests, cut := context.WithCancel(context.WithoutCancel(ctx))
	defer cut()
	server := NewServer(closing(ctx, cfg.Handler), cfg.Log)
	if cfg.RPC {
		speakRPC(server)
	}
	server.BaseContext = func(net.Listener) context.Context { return requests }
	drained, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	context.AfterFunc(ctx, func() {
		cfg.Draining()
		time.AfterFunc(cfg.Delay, stop)
	})
	err := service.ServeHTTP(drained, server, listener, cfg.Grace)
	if ctx.Err() != nil && errors.Is(err, context.DeadlineExceeded) {
		cfg.Log.Warn("requests in flight were cut off at shutdown", "grace", cfg.Grace)
		return nil
	}
	return err
}

// closing has answers after the context's end close their connections, so that clients
// open the next one elsewhere.
func closing(ctx context.Context, h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if ctx.Err() != nil && r.Header.Get("Upgrade") == "" {
			w.Header().Set("Connection", "close")
		}
		h.ServeHTTP(w, r)
	})
}

const (
	// maxStreams bounds the calls of one connection, and receiveBuffer what one of them sends
	// before it is read, in bytes.
	maxStreams, receiveBuffer = 1024, 64 << 10
	// pingAfter is how long a connection is silent before it is asked for a sign of life, and
	// pingTimeout how long that may take.
	pingAfter, pingTimeout = 30 * time.Second, 15 * time.Second
)

// speakRPC has a server speak HTTP/2 alone, with bounds of its own.
func speakRPC(server *http.Server) {
	server.Protocols = new(http.Protocols)
	server.Protocols.SetHTTP2(true)
	server.Protocols.SetUnencryptedHTTP2(true)
	server.HTTP2 = &http.HTTP2Config{
		MaxConcurrentStreams: maxStreams, MaxReceiveBufferPerStream: receiveBuffer, MaxReceiveBufferPerConnection: 16 * receiveBuffer,
		SendPingTimeout: pingAfter, PingTimeout: pingTimeout,
	}
}

// NewServer returns a server. It has no timeout for whole requests or answers: a model
// may think and talk for minutes.
func NewServer(handler http.Handler, log *slog.Logger) *http.Server {
	return &http.Server{
		Handler: handler, ReadHeaderTimeout: HeaderTimeout, IdleTimeout: idleTimeout,
		ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelDebug),
	}
}
