// Package e2e runs the whole of Unloop as its users do: real clients in front,
// a scripted upstream behind, real NATS in between.
package e2e

import (
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/unloop/unloop/deploy/scripted"
	"github.com/unloop/unloop/deploy/unloop/system"
	"github.com/unloop/unloop/embedworker"
	"github.com/unloop/unloop/gateway"
	"github.com/unloop/unloop/notifier"
	"github.com/unloop/unloop/schemas/kit/natskit"
)

// checkTimeout is longer than any check takes on a machine under load, so that
// no request passes without one.
const checkTimeout = time.Minute

// served is a scripted upstream at an address.
type served struct {
	*scripted.Upstream
	url string
}

// serve starts an upstream that follows the script.
func serve(t *testing.T, script scripted.Script) served {
	t.Helper()
	upstream := scripted.New(script)
	server := httptest.NewServer(upstream)
	t.Cleanup(server.Close)
	return served{upstream, server.URL}
}

// start runs all services with the default policy in front of the upstream, until
// the test ends. Each has a connection to NATS of its own, and they send each other
// every request over it, as separate processes do; see inProcess. Edits change the
// configuration first.
func start(t *testing.T, upstream string, edits ...func(*system.Config)) *system.System {
	t.Helper()
	s, _ := startStoppable(t, upstream, edits...)
	return s
}

// startStoppable also returns what stops the system before the test ends.
func startStoppable(t *testing.T, upstream string, edits ...func(*system.Config)) (s *system.System, stop func()) {
	t.Helper()
	return startLogging(t, slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelWarn})), upstream, edits...)
}

// startLogging is startStoppable with a log of the test's own.
func startLogging(t *testing.T, log *slog.Logger, upstream string, edits ...func(*system.Config)) (s *system.System, stop func()) {
	t.Helper()
	cfg := system.Config{
		Admin:    "127.0.0.1:0",
		Replicas: 1,
		OverNATS: true,
		Embedded: natskit.EmbeddedConfig{Listen: "127.0.0.1:0", DataDir: t.TempDir()},
		Gateway:  gateway.DefaultConfig(),
		Notifier: notifier.DefaultConfig(),
		// Whatever is installed, tests compare with what is built in.
		Embedworker: lexical(),
	}
	cfg.Gateway.Listen = "127.0.0.1:0"
	cfg.Gateway.Upstream = map[string]string{"openai": upstream, "anthropic": upstream, "gemini": upstream, "bedrock": upstream}
	cfg.Gateway.CheckTimeout, cfg.Gateway.StartGrace = checkTimeout, 20*time.Second
	// Most tests go on after they were rejected, and expect the same answer each time.
	cfg.Gateway.Reject = "429"
	for _, edit := range edits {
		edit(&cfg)
	}
	s, err := system.New(cfg, log)
	if err != nil {
		t.Fatalf("make the system: %v", err)
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("run the system: %v", err)
		}
	})
	t.Cleanup(stop)
	if err := s.Wait(t.Context()); err != nil {
		t.Fatalf("wait for the system: %v", err)
	}
	return s, stop
}

// inProcess has requests between services stay in the process, as they do in
// `unloop up`.
func inProcess(cfg *system.Config) { cfg.OverNATS = false }

// rejectAuto has rejected requests answered by what ends their client, as it is by default.
func rejectAuto(cfg *system.Config) { cfg.Gateway.Reject = "auto" }

// bothWays runs a test over NATS and again with requests that stay in the process.
func bothWays(t *testing.T, test func(t *testing.T, way func(*system.Config))) {
	t.Helper()
	for name, way := range map[string]func(*system.Config){"over NATS": func(*system.Config) {}, "in the process": inProcess} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, way)
		})
	}
}

// lexical is the configuration of the embedding worker that needs no model.
func lexical() embedworker.Config {
	cfg := embedworker.DefaultConfig()
	cfg.Embedder = "lexical"
	return cfg
}

// need is a real part that make test installs and names in a variable.
func need(t *testing.T, variable string) string {
	t.Helper()
	path := os.Getenv(variable)
	if path == "" {
		t.Skip(variable + " is not set; make test sets it")
	}
	return path
}

// hopByHop are headers of one connection, which a gateway does not pass on.
var hopByHop = []string{"Connection", "Keep-Alive", "Te", "Transfer-Encoding"}

// withoutHops strips from requests what belongs to the connection alone.
func withoutHops(requests []scripted.Request) []scripted.Request {
	for i := range requests {
		requests[i].Header = requests[i].Header.Clone()
		for _, name := range hopByHop {
			requests[i].Header.Del(name)
		}
		requests[i].Host = ""
	}
	return requests
}

// hosts are the host names that requests asked for.
func hosts(requests []scripted.Request) []string {
	var all []string
	for _, r := range requests {
		all = append(all, "http://"+r.Host)
	}
	return all
}

// weather is a script with one tool: it is called first, and its result makes
// the answer.
func weather(r scripted.Request) scripted.Reply {
	if r.ToolResult() {
		return scripted.Text("It is ", "sunny.")
	}
	return scripted.Tools(
		scripted.ToolCall{ID: "call_oslo", Name: "weather", Arguments: `{"city":"Oslo"}`},
		scripted.ToolCall{ID: "call_rome", Name: "weather", Arguments: `{"city":"Rome"}`},
	)
}

// greeting has what is easily damaged on the way: other alphabets, line ends,
// markup and the separators of an event stream.
func greeting(scripted.Request) scripted.Reply {
	return scripted.Text("Grüß ", "Gott 👋\n\n", "data: not an event\n", `<b> & "quotes" \ `, " end")
}

// forever answers one piece and then nothing until the client leaves.
func forever(scripted.Request) scripted.Reply {
	return scripted.Reply{Pieces: []string{"first", "second"}, Hold: make(chan struct{})}
}

// missing answers an error of the upstream's own.
func missing(scripted.Request) scripted.Reply {
	return scripted.Error(http.StatusNotFound, "model_not_found", "no such model")
}
