package e2e

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"runtime/metrics"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/unloop/unloop/deploy/unloop/system"
)

// logged runs a system whose log is kept, down to its last detail.
func logged(t *testing.T, upstream string, edits ...func(*system.Config)) (s *system.System, log *lines, stop func()) {
	t.Helper()
	log = &lines{}
	s, stop = startLogging(t, slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelDebug})), upstream, edits...)
	return s, log, stop
}

// dying answers in every way in which an upstream can fail.
func dying(t *testing.T) string {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		switch r.Header.Get("X-Fault") {
		case "early":
			panic(http.ErrAbortHandler)
		case "late":
			_, _ = io.WriteString(w, "data: first\n\n")
			_ = http.NewResponseController(w).Flush()
			panic(http.ErrAbortHandler)
		case "garbage":
			conn, _, err := http.NewResponseController(w).Hijack()
			if err == nil {
				_, _ = io.WriteString(conn, "this is no HTTP: "+r.Header.Get("Authorization")+r.URL.RawQuery+"\r\n\r\n")
				_ = conn.Close()
			}
		case "redirect":
			w.Header().Set("Location", r.RequestURI)
			w.WriteHeader(http.StatusTemporaryRedirect)
		default:
			w.WriteHeader(http.StatusInternalServerError)
		}
	}))
	t.Cleanup(server.Close)
	return server.URL
}

func TestKeysAreNeverLogged(t *testing.T) {
	t.Parallel()
	keys := []string{"sk-SECRET-header", "SECRET-query", "SECRET-wrong-own-key", aliceKey, providerKey}
	upstream := dying(t)
	for name, edits := range map[string][]func(*system.Config){
		"clients have keys":       {everywhere(upstream)},
		"the gateway has the key": {injecting(t, upstream), guarded(t)},
		"nobody is there": {func(cfg *system.Config) {
			const nobody = "http://127.0.0.1:1"
			cfg.Gateway.Upstream = map[string]string{"openai": nobody, "anthropic": nobody, "gemini": nobody, "default": nobody}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, log, stop := logged(t, upstream, edits...)
			for _, path := range []string{"/v1/chat/completions", "/v1beta/models/m:generateContent?key=SECRET-query&alt=sse", "/v1/messages", "/other?key=SECRET-query&x=%zz", "/v1/x;y?key=SECRET-query;b"} {
				for _, fault := range []string{"", "early", "late", "garbage", "redirect"} {
					for _, own := range []string{aliceKey, "SECRET-wrong-own-key"} {
						c := call{http.MethodPost, path, `{"messages":[{"role":"user","content":"hi"}]}`, http.Header{
							"Authorization": {"Bearer sk-SECRET-header"}, "X-Api-Key": {"sk-SECRET-header"}, "X-Goog-Api-Key": {"sk-SECRET-header"},
							"X-Unloop-Key": {own}, "X-Fault": {fault},
						}}
						_, _ = trySend(s.URL(), c) // what fails is the point
					}
				}
			}
			raw(t, s.URL(), "GET /v1/models?key=SECRET-query HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer sk-SECRET-header\r\nBad header: sk-SECRET-header\r\n\r\n")
			raw(t, s.URL(), "GARBAGE sk-SECRET-header\r\n\r\n")
			stop()
			if text := log.String(); !strings.Contains(text, "level=DEBUG") && !strings.Contains(text, "level=WARN") {
				t.Errorf("the log is empty:\n%s", text)
			}
			for line := range strings.Lines(log.String()) {
				for _, key := range keys {
					if strings.Contains(line, key) {
						t.Errorf("the log tells %s: %s", key, line)
					}
				}
			}
		})
	}
}

// Memory is measured while the body is half through, so that it would all be
// there if it were held. The test runs alone, since others use memory too.
func TestBodyOf200MiBIsForwardedWithoutBeingHeld(t *testing.T) {
	const size, allowed = 200 << 20, 32 << 20
	var received atomic.Int64
	half, goOn := make(chan struct{}), make(chan struct{})
	upstream := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		n, _ := io.CopyN(io.Discard, r.Body, size/2)
		close(half)
		<-goOn
		rest, _ := io.Copy(io.Discard, r.Body)
		received.Store(n + rest)
	}))
	t.Cleanup(upstream.Close)
	url := start(t, upstream.URL).URL()
	for name, length := range map[string]int64{"of known length": size, "in chunks": -1} {
		half, goOn = make(chan struct{}), make(chan struct{})
		before := heap()
		req, err := http.NewRequest(http.MethodPost, url+"/v1/chat/completions", io.NopCloser(io.LimitReader(zeros{}, size)))
		if err != nil {
			t.Fatal(err)
		}
		req.ContentLength = length
		answered := make(chan error, 1)
		go func() {
			res, err := http.DefaultClient.Do(req)
			if err == nil {
				err = res.Body.Close()
			}
			answered <- err
		}()
		<-half
		if grown := heap() - before; grown > allowed {
			t.Errorf("%s: the heap grew by %d MiB", name, grown>>20)
		} else {
			t.Logf("%s: the heap grew by %d KiB", name, grown>>10)
		}
		close(goOn)
		if err := <-answered; err != nil || received.Load() != size {
			t.Errorf("%s: the upstream got %d bytes, %v", name, received.Load(), err)
		}
	}
}

// heap is the memory of live objects, in bytes.
func heap() int64 {
	runtime.GC()
	sample := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	metrics.Read(sample)
	return int64(sample[0].Value.Uint64())
}

// zeros is a body without end.
type zeros struct{}

func (zeros) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}

func TestBodyThatStopsHalfWayIsRefusedAndForgotten(t *testing.T) {
	t.Parallel()
	upstream := serve(t, nil)
	s := start(t, upstream.url, func(cfg *system.Config) { cfg.Gateway.MaxInspectBytes = 100_000 })
	for name, c := range map[string]struct{ length, sent int }{
		"a body that is held":   {1000, 10},
		"a body that is passed": {1_000_000, 300_000},
		"nothing but a promise": {8 << 20, 0},
	} {
		conn, err := net.Dial("tcp", strings.TrimPrefix(s.URL(), "http://"))
		if err != nil {
			t.Fatal(err)
		}
		_, _ = fmt.Fprintf(conn, "POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n%s", c.length, strings.Repeat("x", c.sent))
		if err := conn.(*net.TCPConn).CloseWrite(); err != nil {
			t.Fatal(err)
		}
		status, err := bufio.NewReader(conn).ReadString('\n')
		if err != nil || !strings.HasPrefix(status, "HTTP/1.1 400") {
			t.Errorf("%s: %q, %v; want a 400", name, status, err)
		}
		_ = conn.Close()
	}
	for _, r := range upstream.Requests() {
		if int64(len(r.Body)) == r.ContentLength {
			t.Errorf("the upstream got a whole request of %d bytes", len(r.Body))
		}
	}
	if n := metric(t, s, `unloop_gateway_upstream_errors_total{upstream="openai"}`); n != 0 {
		t.Errorf("%v failures are counted against the upstream", n)
	}
}

func TestHeadersThatAreNoUTF8PassAndAreCounted(t *testing.T) {
	t.Parallel()
	upstream, seen := rawUpstream(t)
	s := start(t, upstream, policies(t, `
bundle_version: 1
policies:
  - id: same
    spec:
      loop_detection: {enabled: true, window_seconds: 60, threshold_identical_requests: 3, action: reject}
      rules: [{name: r, limit_keys: ["header:x-odd"], algorithm: token_bucket, algorithm_config: {rps: 1000, burst: 1000}}]
`))
	const odd = "a\xff\xfe\xe4\xf6b"
	request := "POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nX-Odd: " + odd + "\r\nX-Session-Id: " + odd + "\r\nX-Tenant-Id: " + odd + "\r\nX-Project-Id: " + odd +
		"\r\nX-Request-Id: " + odd + "\r\nAuthorization: Bearer " + odd + "\r\nBaggage: session.id=" + odd + "\r\nContent-Length: 2\r\n\r\n{}"
	for n, want := range []string{"HTTP/1.1 200 OK", "HTTP/1.1 200 OK", "HTTP/1.1 429 Too Many Requests"} {
		if got := raw(t, s.URL(), request); got != want {
			t.Errorf("request %d: %s, want %s", n+1, got, want)
		}
	}
	if wire := <-seen; strings.Count(wire, odd) != 7 {
		t.Errorf("the upstream saw %q", wire)
	}
	if n := metric(t, s, `unloop_gateway_checks_total{result="decided"}`); n < 2 {
		t.Errorf("%v requests were checked", n)
	}
}

func TestClientThatReadsNothingStopsNobodyAndEndsAtShutdown(t *testing.T) {
	t.Parallel()
	left := make(chan struct{})
	upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/v1/endless" {
			return
		}
		_, _ = io.Copy(w, zeros{}) // until it is cut off
		close(left)
	}))
	t.Cleanup(upstream.Close)
	s, stop := startStoppable(t, upstream.URL, func(cfg *system.Config) { cfg.Gateway.ShutdownGrace = 0 })
	conn, err := net.Dial("tcp", strings.TrimPrefix(s.URL(), "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	_, _ = io.WriteString(conn, "GET /v1/endless HTTP/1.1\r\nHost: localhost\r\n\r\n")
	if _, err := io.ReadFull(conn, make([]byte, 12)); err != nil { // it has begun
		t.Fatal(err)
	}
	for n := range 20 {
		if a := send(t, s.URL(), call{http.MethodGet, fmt.Sprint("/v1/models/", n), "", nil}); a.status != http.StatusOK {
			t.Errorf("another client: status %d", a.status)
		}
	}
	stop()
	<-left
}

func TestOversizedHeadersAreRefused(t *testing.T) {
	t.Parallel()
	upstream := serve(t, nil)
	url := start(t, upstream.url, guarded(t)).URL()
	for name, size := range map[string]int{"a key of 20 KB": 20 << 10, "a key of a megabyte": 1 << 20, "a key of 4 MB": 4 << 20} {
		a, err := trySend(url, prompt("x").with("X-Unloop-Key", strings.Repeat("k", size)))
		switch {
		case errors.Is(err, context.DeadlineExceeded):
			t.Errorf("%s: %v", name, err)
		case err == nil && a.status != http.StatusUnauthorized && a.status != http.StatusRequestHeaderFieldsTooLarge:
			t.Errorf("%s: status %d", name, a.status)
		}
	}
	if n := len(upstream.Requests()); n != 0 {
		t.Errorf("%d requests reached the upstream", n)
	}
}
