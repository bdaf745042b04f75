// Package serve runs an HTTP server until it is stopped, and then drains it.
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
	// HeaderTimeout bounds the time until a client has sent its headers.
	HeaderTimeout = 10 * time.Second
	idleTimeout   = 2 * time.Minute
)

// Config says how requests are served.
type Config struct {
	Handler http.Handler
	Log     *slog.Logger
	// RPC is set for gRPC: HTTP/2 only, also without TLS.
	RPC bool
	// Draining is called when shutdown begins.
	Draining func()
	// Delay is how long requests are still accepted after that, Grace how long those in
	// flight may then take.
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

// closing makes answers after the context's end close their connections, so that clients open
// the next one elsewhere.
func closing(ctx context.Context, h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if ctx.Err() != nil && r.Header.Get("Upgrade") == "" {
			w.Header().Set("Connection", "close")
		}
		h.ServeHTTP(w, r)
	})
}

const (
	// maxStreams bounds the calls on one connection, receiveBuffer the unread bytes of one
	// call.
	maxStreams, receiveBuffer = 1024, 64 << 10
	// A connection that is idle for pingAfter gets a ping, whose answer may take pingTimeout.
	pingAfter, pingTimeout = 30 * time.Second, 15 * time.Second
)

// speakRPC makes a server speak HTTP/2 only, with bounds for gRPC.
func speakRPC(server *http.Server) {
	server.Protocols = new(http.Protocols)
	server.Protocols.SetHTTP2(true)
	server.Protocols.SetUnencryptedHTTP2(true)
	server.HTTP2 = &http.HTTP2Config{
		MaxConcurrentStreams: maxStreams, MaxReceiveBufferPerStream: receiveBuffer, MaxReceiveBufferPerConnection: 16 * receiveBuffer,
		SendPingTimeout: pingAfter, PingTimeout: pingTimeout,
	}
}

// NewServer returns a server without a timeout for whole requests or answers: a model may
// take minutes.
func NewServer(handler http.Handler, log *slog.Logger) *http.Server {
	return &http.Server{
		Handler: handler, ReadHeaderTimeout: HeaderTimeout, IdleTimeout: idleTimeout,
		ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelDebug),
	}
}
