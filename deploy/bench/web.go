package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"

	"github.com/unloop/unloop/deploy/bench/measure"
)

// answer is the answer of the upstream to every request.
const answer = `{"id":"chatcmpl-1","object":"chat.completion","created":1790000000,"model":"gpt-5","choices":[{"index":0,"message":{"role":"assistant","content":"Hello!"},"finish_reason":"stop"}],"usage":{"prompt_tokens":60,"completion_tokens":2,"total_tokens":62}}`

// Names of the contenders.
const (
	nameUpstream = "upstream alone"
	nameProxy    = "bare httputil.ReverseProxy"
	nameExact    = "Unloop, exact detectors"
	nameUnloop   = "Unloop, default policy"
	nameRefuser  = "bare Go handler, 429"
	nameBlocked  = "Unloop, blocked loops"
)

// loops is the number of different loops that are blocked.
const loops = 16

// gateway compares unique prompts through Unloop, with and without semantic detection,
// with the same prompts through a bare proxy.
func (s *session) gateway(ctx context.Context) (err error) {
	var parts ender
	defer func() { err = errors.Join(err, parts.end()) }()
	upstream, what, err := s.startUpstream(ctx, &parts)
	if err != nil {
		return err
	}
	proxy, err := parts.role(ctx, "proxy", upstream)
	if err != nil {
		return err
	}
	exact, err := s.startSystem(ctx, upstream, exactPolicies, &parts)
	if err != nil {
		return err
	}
	whole, err := s.startSystem(ctx, upstream, "", &parts)
	if err != nil {
		return err
	}
	var number atomic.Int64
	unique := func(int) string { return prompt(number.Add(1)) }
	res, err := measure.Compare(ctx, s.plan,
		httpContender(nameUpstream, upstream, http.StatusOK, unique),
		httpContender(nameProxy, proxy, http.StatusOK, unique),
		httpContender(nameExact, exact, http.StatusOK, unique),
		httpContender(nameUnloop, whole, http.StatusOK, unique))
	if err != nil {
		return err
	}
	s.title("gateway: unique prompts of 250 bytes, upstream %s, all of Unloop in one process", what)
	res.Print(s.out)
	for _, name := range []string{nameExact, nameUnloop} {
		measure.PrintTargets(s.out,
			res.AddsAtMost(name+": adds at most 1.5 times what the bare proxy adds (p50)", name, nameProxy, nameUpstream, 1.5, levels...),
			aheadOfFairvisor(res, name))
	}
	return nil
}

// exactPolicies are the default policy without semantic detection.
const exactPolicies = `bundle_version: 1
policies:
  - id: exact
    spec:
      selector: {pathPrefix: /v1/, methods: [POST]}
      prompt: {max_hits: 5, window_seconds: 60, cooldown_seconds: 30}
      tool: {warn_threshold: 3, block_threshold: 5}
      cycle: {}
`

func aheadOfFairvisor(res *measure.Results, name string) measure.Target {
	return measure.Target{
		Text: name + ": ahead of Fairvisor on the machine of docs/benchmarks.md (3.2k, 10.6k, 9.5k/s)", Levels: levels, Unit: "k/s",
		Figure: func(level int) (float64, bool) {
			rate := res.Median(name, level).PerSecond / 1000
			return rate, rate > fairvisor[level]
		},
	}
}

// fairvisor are the rates of Fairvisor with loop detection, in thousands a second,
// measured once on the machine of docs/benchmarks.md.
var fairvisor = map[int]float64{1: 3.2, 8: 10.6, 64: 9.5}

// blocked compares refusals of blocked loops with those of a handler that refuses
// everything.
func (s *session) blocked(ctx context.Context) (err error) {
	var parts ender
	defer func() { err = errors.Join(err, parts.end()) }()
	upstream, _, err := s.startUpstream(ctx, &parts)
	if err != nil {
		return err
	}
	refuser, err := parts.role(ctx, "refuser")
	if err != nil {
		return err
	}
	unloop, err := s.startSystem(ctx, upstream, "", &parts)
	if err != nil {
		return err
	}
	looping := func(caller int) string { return prompt(int64(caller % loops)) }
	if err := untilBlocked(ctx, unloop, looping); err != nil {
		return err
	}
	res, err := measure.Compare(ctx, s.plan,
		httpContender(nameRefuser, refuser, http.StatusTooManyRequests, looping),
		httpContender(nameBlocked, unloop, http.StatusTooManyRequests, looping))
	if err != nil {
		return err
	}
	s.title("blocked loops: %d loops, all answers 429", loops)
	res.Print(s.out)
	measure.PrintTargets(s.out, res.AtLeast("at 0.8 or more of the bare handler's rate", nameBlocked, nameRefuser, 0.8, levels...))
	return nil
}

// untilBlocked sends every loop until it is blocked.
func untilBlocked(ctx context.Context, url string, body func(caller int) string) error {
	for i := range loops {
		conn, err := dial(url)
		if err != nil {
			return err
		}
		status := 0
		for range 20 {
			if status, err = conn.post(ctx, body(i)); err != nil || status == http.StatusTooManyRequests {
				break
			}
		}
		conn.close()
		if err != nil || status != http.StatusTooManyRequests {
			return fmt.Errorf("loop %d was not blocked: status %d: %w", i, status, err)
		}
	}
	return nil
}

// startSystem starts Unloop with policies in YAML, or with its default policy.
func (s *session) startSystem(ctx context.Context, upstream, policies string, parts *ender) (string, error) {
	dir, err := s.store()
	if err != nil {
		return "", err
	}
	file := ""
	if policies != "" {
		file = filepath.Join(s.dir, "policies.yaml")
		if err := os.WriteFile(file, []byte(policies), 0o600); err != nil {
			return "", fmt.Errorf("write policies: %w", err)
		}
	}
	return parts.role(ctx, "system", dir, upstream, file)
}

// startUpstream starts nginx, where it is installed, or else a Go handler.
func (s *session) startUpstream(ctx context.Context, parts *ender) (addr, what string, err error) {
	if path, err := exec.LookPath("nginx"); err == nil {
		addr, stop, err := s.startNginx(ctx, path)
		if err == nil {
			parts.add(stop)
			return addr, "nginx, static", nil
		}
		fmt.Fprintf(s.out, "\nnginx is left out: %v\n", err)
	}
	addr, err = parts.role(ctx, "upstream")
	return addr, "a static Go handler", err
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

func (s *session) startNginx(ctx context.Context, path string) (string, func() error, error) {
	dir, err := s.store()
	if err != nil {
		return "", nil, err
	}
	addr, err := freeAddr()
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
	return serve(ctx, reply(http.StatusOK, answer))
}

// refuserRole refuses everything, in as many bytes as a refusal of Unloop has.
func refuserRole(ctx context.Context, _ []string) (string, func() error, error) {
	const refusalSize = 1000
	return serve(ctx, reply(http.StatusTooManyRequests, `"`+strings.Repeat("x", refusalSize)+`"`))
}

func reply(status int, body string) http.Handler {
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

// proxyRole is the standard library's proxy in front of an upstream, with enough idle
// connections.
func proxyRole(ctx context.Context, args []string) (string, func() error, error) {
	target, err := url.Parse(args[0])
	if err != nil {
		return "", nil, fmt.Errorf("read upstream: %w", err)
	}
	transport := &http.Transport{MaxIdleConnsPerHost: 256, DisableCompression: true}
	return serve(ctx, &httputil.ReverseProxy{
		Transport: transport,
		Rewrite:   func(r *httputil.ProxyRequest) { r.SetURL(target) },
	})
}
