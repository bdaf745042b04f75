package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/unloop/unloop/schemas/kit/freeport"
	"github.com/unloop/unloop/schemas/kit/pause"
	"github.com/unloop/unloop/schemas/kit/service"
)

// answer is the answer of the upstream to every request.
const answer = `{"id":"chatcmpl-1","object":"chat.completion","created":1790000000,"model":"gpt-5","choices":[{"index":0,"message":{"role":"assistant","content":"Hello!"},"finish_reason":"stop"}],"usage":{"prompt_tokens":60,"completion_tokens":2,"total_tokens":62}}`

// startUpstream starts nginx, where it is installed, or else a Go handler.
func (b *bench) startUpstream(ctx context.Context, parts *ender) (addr, what string, err error) {
	if path, err := exec.LookPath("nginx"); err == nil {
		addr, stop, err := b.startNginx(ctx, path)
		if err == nil {
			parts.add(stop)
			return addr, "nginx, static", nil
		}
		fmt.Fprintf(b.out, "\nnginx is left out: %v\n", err)
	}
	p, err := parts.role(ctx, "upstream")
	if err != nil {
		return "", "", err
	}
	return p.Addr, "a static Go handler", nil
}

// nginxConfig is a server with one answer to everything.
const nginxConfig = `daemon off; worker_processes 1; pid %[1]s/nginx.pid; error_log stderr crit;
events { worker_connections 1024; }
http {
  access_log off; keepalive_requests 1000000000; client_body_temp_path %[1]s; proxy_temp_path %[1]s;
  fastcgi_temp_path %[1]s; uwsgi_temp_path %[1]s; scgi_temp_path %[1]s;
  server { listen %[2]s; location / { default_type application/json; return 200 '%[3]s'; } }
}
`

func (b *bench) startNginx(ctx context.Context, path string) (string, func() error, error) {
	dir, err := b.store()
	if err != nil {
		return "", nil, err
	}
	addr, err := freeport.Addr()
	if err != nil {
		return "", nil, err
	}
	file := filepath.Join(dir, "nginx.conf")
	if err := os.WriteFile(file, fmt.Appendf(nil, nginxConfig, dir, addr, answer), 0o600); err != nil {
		return "", nil, fmt.Errorf("configure nginx: %w", err)
	}
	cmd := exec.CommandContext(ctx, path, "-e", "stderr", "-c", file, "-p", dir)
	if err := cmd.Start(); err != nil {
		return "", nil, fmt.Errorf("start %s: %w", path, err)
	}
	stop := func() error {
		err := cmd.Process.Signal(os.Interrupt)
		_ = cmd.Wait() // nginx says of its end what it likes
		return err
	}
	if err := await(ctx, "nginx", func(ctx context.Context) error {
		conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", addr)
		if err != nil {
			return err
		}
		return conn.Close()
	}); err != nil {
		return "", nil, errors.Join(err, stop())
	}
	return "http://" + addr, stop, nil
}

// serve runs a handler until the context ends.
func serve(ctx context.Context, h http.Handler) (string, func() error, error) {
	ln, err := net.Listen("tcp", anyPort)
	if err != nil {
		return "", nil, fmt.Errorf("listen: %w", err)
	}
	server := &http.Server{Handler: h, ReadHeaderTimeout: patience}
	done := make(chan error, 1)
	go func() { done <- server.Serve(ln) }()
	context.AfterFunc(ctx, func() { _ = server.Close() }) // its listener's error is no news
	return "http://" + ln.Addr().String(), func() error {
		if err := <-done; !errors.Is(err, http.ErrServerClosed) {
			return err
		}
		return nil
	}, nil
}

// upstreamRole is an upstream with one answer to everything.
func upstreamRole(ctx context.Context, _ []string) (string, func() error, error) {
	return serve(ctx, constant(http.StatusOK, answer))
}

// refuserRole refuses everything, in as many bytes as a refusal of Unloop has.
func refuserRole(ctx context.Context, _ []string) (string, func() error, error) {
	const refusalSize = 1000
	return serve(ctx, constant(http.StatusTooManyRequests, `"`+strings.Repeat("x", refusalSize)+`"`))
}

func constant(status int, body string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, err := io.Copy(io.Discard, r.Body); err != nil {
			return // the client left
		}
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Content-Length", strconv.Itoa(len(body)))
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body) // a client that left needs no answer
	})
}

// proxyMetrics is the path at which the bare proxy serves its own metrics.
const proxyMetrics = "/bench/metrics"

// proxyRole is the standard library's proxy in front of an upstream, with enough idle
// connections.
func proxyRole(ctx context.Context, args []string) (string, func() error, error) {
	target, err := url.Parse(args[0])
	if err != nil {
		return "", nil, fmt.Errorf("read upstream: %w", err)
	}
	proxy := &httputil.ReverseProxy{
		Transport: &http.Transport{MaxIdleConnsPerHost: 1024, DisableCompression: true},
		Rewrite:   func(r *httputil.ProxyRequest) { r.SetURL(target) },
		ErrorLog:  slog.NewLogLogger(slog.DiscardHandler, slog.LevelError), // of clients that leave
	}
	metrics := promhttp.HandlerFor(service.NewRegistry(), promhttp.HandlerOpts{})
	return serve(ctx, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == proxyMetrics {
			metrics.ServeHTTP(w, r)
			return
		}
		// Otherwise the server closes the request's body with the first byte of the answer,
		// and where the transport has not yet seen its end, it gives up the upstream.
		if err := http.NewResponseController(w).EnableFullDuplex(); err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		proxy.ServeHTTP(w, r)
	}))
}

// chunks is the number of chunks of a streamed answer.
const chunks = 50

// chunkHead and chunkTail are a chunk around the time at which it is sent, in Unix
// nanoseconds.
const (
	chunkHead = `data: {"id":"chatcmpl-1","object":"chat.completion.chunk","created":1790000000,"model":"gpt-5","choices":[{"index":0,"delta":{"content":"`
	chunkTail = `"},"finish_reason":null}]}` + "\n\n"
	lastChunk = "data: [DONE]\n\n"
)

// streamerRole is an upstream that streams its answers, with the pause that is in the
// query between two chunks.
func streamerRole(ctx context.Context, _ []string) (string, func() error, error) {
	return serve(ctx, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, err := io.Copy(io.Discard, r.Body); err != nil {
			return // the client left
		}
		gap, err := time.ParseDuration(r.URL.Query().Get("pause"))
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		w.Header().Set("Content-Type", "text/event-stream")
		streamChunks(r.Context(), w, gap)
	}))
}

func streamChunks(ctx context.Context, w http.ResponseWriter, gap time.Duration) {
	out := http.NewResponseController(w)
	var chunk []byte
	for began, n := time.Now(), 0; n < chunks; n++ {
		if gap > 0 && pause.For(ctx, time.Until(began.Add(time.Duration(n)*gap))) != nil {
			return
		}
		chunk = append(strconv.AppendInt(append(chunk[:0], chunkHead...), time.Now().UnixNano(), 10), chunkTail...)
		if _, err := w.Write(chunk); err != nil || out.Flush() != nil {
			return // the client left
		}
	}
	_, _ = io.WriteString(w, lastChunk) // a client that left needs no end
}
