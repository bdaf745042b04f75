package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/unloop/unloop/schemas/kit/freeport"
	"github.com/unloop/unloop/schemas/kit/pause"
	"github.com/unloop/unloop/schemas/kit/service"
)

// Roles of this executable: the command line of unloop, the upstream, the bare proxy, and a
// NATS server.
const (
	unloopRole = "role-unloop"
	originRole = "role-origin"
	proxyRole  = "role-proxy"
	natsRole   = "role-nats"
)

// roles serve until the context ends. Their first argument is the address, or for a NATS
// server the file of its configuration.
var roles = map[string]func(ctx context.Context, args []string) error{originRole: origin, proxyRole: proxy, natsRole: natsServer}

// startRole starts this executable in a role that serves HTTP.
func (b *bench) startRole(ctx context.Context, role string, args ...string) (*instance, error) {
	addr, err := freeport.Addr()
	if err != nil {
		return nil, err
	}
	in := &instance{url: "http://" + addr}
	metrics := in.url + metricsPath
	return in, b.startProcess(ctx, in, role, program{args: append([]string{role, addr}, args...)}, metrics, metrics)
}

// metricsPath is where a role serves its own metrics.
const metricsPath = "/bench/metrics"

func serve(ctx context.Context, addr string, h http.HandlerFunc) error {
	ln, err := net.Listen("tcp", addr)
	if err != nil {
		return fmt.Errorf("listen: %w", err)
	}
	mux := http.NewServeMux()
	mux.Handle(metricsPath, promhttp.HandlerFor(service.NewRegistry(), promhttp.HandlerOpts{}))
	mux.Handle("/", h)
	server := &http.Server{Handler: mux, ReadHeaderTimeout: patience}
	return service.ServeHTTP(ctx, server, ln, patience)
}

// proxy serves the standard library's proxy in front of an upstream, with enough idle
// connections.
func proxy(ctx context.Context, args []string) error {
	target, err := url.Parse(args[1])
	if err != nil {
		return fmt.Errorf("read upstream: %w", err)
	}
	p := &httputil.ReverseProxy{
		Transport: &http.Transport{MaxIdleConnsPerHost: 1024, DisableCompression: true},
		Rewrite:   func(r *httputil.ProxyRequest) { r.SetURL(target) },
		ErrorLog:  slog.NewLogLogger(slog.DiscardHandler, slog.LevelError), // of clients that leave
	}
	return serve(ctx, args[0], func(w http.ResponseWriter, r *http.Request) {
		// Otherwise the server closes the request's body with the first byte of the answer,
		// and a transport that has not seen its end yet drops the upstream's connection.
		if err := http.NewResponseController(w).EnableFullDuplex(); err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		p.ServeHTTP(w, r)
	})
}

// answer is what the upstream answers by default.
const answer = `{"id":"chatcmpl-1","object":"chat.completion","created":1790000000,"model":"gpt-5","choices":[{"index":0,"message":{"role":"assistant","content":"Hello!"},"finish_reason":"stop"}],"usage":{"prompt_tokens":60,"completion_tokens":2,"total_tokens":62}}`

// refusalPath is answered with 429 and a body of the size of Unloop's.
const refusalPath = "/refuse/v1/chat/completions"

var refusal = `"` + strings.Repeat("x", 1000) + `"`

// origin serves an upstream. It streams as many chunks as the query asks for, with the pause
// that the query has.
func origin(ctx context.Context, args []string) error {
	return serve(ctx, args[0], func(w http.ResponseWriter, r *http.Request) {
		if _, err := io.Copy(io.Discard, r.Body); err != nil {
			return // the client left
		}
		query := r.URL.Query()
		n, err := strconv.Atoi(query.Get(chunksKey))
		switch {
		case err == nil:
			gap, _ := time.ParseDuration(query.Get(pauseKey)) // of this program's clients alone
			w.Header().Set("Content-Type", "text/event-stream")
			streamChunks(r.Context(), w, n, gap)
		case r.URL.Path == refusalPath:
			respond(w, http.StatusTooManyRequests, refusal)
		default:
			respond(w, http.StatusOK, answer)
		}
	})
}

func respond(w http.ResponseWriter, status int, body string) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(status)
	_, _ = io.WriteString(w, body) // a client that left needs no answer
}

const (
	// chunks is the number of chunks of an answer in the part stream.
	chunks = 50
	// chunksKey and pauseKey name the chunks and the pause in a query.
	chunksKey, pauseKey = "chunks", "pause"
	// chunkHead and chunkTail are a chunk around the time at which it is sent, in Unix
	// nanoseconds.
	chunkHead = `data: {"id":"chatcmpl-1","object":"chat.completion.chunk","created":1790000000,"model":"gpt-5","choices":[{"index":0,"delta":{"content":"`
	chunkTail = `"},"finish_reason":null}]}` + "\n\n"
	lastChunk = "data: [DONE]\n\n"
)

func streamChunks(ctx context.Context, w http.ResponseWriter, chunks int, gap time.Duration) {
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
