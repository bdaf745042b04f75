package clients

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os/exec"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/unloop/unloop/deploy/scripted"
	"github.com/unloop/unloop/deploy/unloop/system"
	"github.com/unloop/unloop/embedworker"
	"github.com/unloop/unloop/gateway"
	"github.com/unloop/unloop/notifier"
	"github.com/unloop/unloop/schemas/kit/natskit"
)

// start runs Unloop in front of an upstream.
func start(t *testing.T, upstream string) string {
	t.Helper()
	cfg := system.Config{
		Admin: "127.0.0.1:0", Replicas: 1, Embedded: natskit.EmbeddedConfig{Listen: "127.0.0.1:0", DataDir: t.TempDir()},
		Gateway: gateway.DefaultConfig(), Notifier: notifier.DefaultConfig(), Embedworker: embedworker.DefaultConfig(),
	}
	cfg.Embedworker.Embedder = "lexical"
	cfg.Gateway.Listen, cfg.Gateway.CheckTimeout = "127.0.0.1:0", 10*time.Second
	cfg.Gateway.Upstream = map[string]string{"openai": upstream, "anthropic": upstream, "gemini": upstream}
	s, err := system.New(cfg, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	if err := s.Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	return s.URL()
}

// exchange is a request of a client with its answer.
type exchange struct {
	method, path string
	status       int
	// action and answer are the headers that say what Unloop did.
	action, answer string
	at             time.Time
}

func (e *exchange) stopped() bool { return e.action == "reject" || e.action == "break" }

// wire keeps what goes between a client and a gateway.
type wire struct {
	mu  sync.Mutex
	all []exchange
	// limited answers the first prompt with the 429 that Unloop gives where waiting helps.
	limited bool
}

// retryAfter is the wait in such a 429, in seconds.
const retryAfter = "2"

// limit writes the 429 if the request is the first prompt.
func (w *wire) limit(rw http.ResponseWriter, r *http.Request) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.limited || r.Method != http.MethodPost {
		return false
	}
	w.limited = false
	h := rw.Header()
	h.Set("Content-Type", "application/json")
	h.Set("Retry-After", retryAfter)
	h.Set("X-Should-Retry", "false")
	rw.WriteHeader(http.StatusTooManyRequests)
	_, _ = rw.Write([]byte(`{"error":{"message":"Stopped by Unloop: a test.","type":"rate_limit_error","param":null,"code":"recursive_loop_detected"}}`))
	w.all = append(w.all, exchange{method: r.Method, path: r.URL.Path, status: http.StatusTooManyRequests, action: "reject", at: time.Now()})
	return true
}

// listen puts the wire in front of a gateway, and returns its address.
func (w *wire) listen(t *testing.T, gateway string) string {
	t.Helper()
	target, err := url.Parse(gateway)
	if err != nil {
		t.Fatal(err)
	}
	proxy := &httputil.ReverseProxy{
		Rewrite:       func(r *httputil.ProxyRequest) { r.SetURL(target) },
		FlushInterval: -1,
		ErrorHandler:  func(w http.ResponseWriter, _ *http.Request, _ error) { w.WriteHeader(http.StatusBadGateway) },
		ModifyResponse: func(res *http.Response) error {
			r := res.Request
			e := exchange{
				method: r.Method, path: r.URL.Path, status: res.StatusCode, at: time.Now(),
				action: res.Header.Get("X-Loop-Action"), answer: res.Header.Get("X-Loop-Answer"),
			}
			w.mu.Lock()
			defer w.mu.Unlock()
			w.all = append(w.all, e)
			return nil
		},
	}
	server := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		if !w.limit(rw, r) {
			proxy.ServeHTTP(rw, r)
		}
	}))
	t.Cleanup(server.Close)
	return server.URL
}

func (w *wire) exchanges() []exchange {
	w.mu.Lock()
	defer w.mu.Unlock()
	return append([]exchange(nil), w.all...)
}

// seen is what came of a run.
type seen struct {
	// ended says that the client ended by itself within its time, with an exit code.
	ended bool
	code  int
	// stops are the answers that stopped the loop: statuses, or synthetic. passed are the
	// prompts that were forwarded before, and after those behind the first stop.
	stops         []string
	passed, after int
	// took is the time from the first stop to the client's end.
	took     time.Duration
	out, err string
	all      []exchange
}

// observe runs a client to its end.
func observe(t *testing.T, cmd *exec.Cmd, w *wire) seen {
	t.Helper()
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr, cmd.Stdin = &stdout, &stderr, strings.NewReader("")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = 5 * time.Second
	err := cmd.Run()
	ended := time.Now()
	var failed *exec.ExitError
	if err != nil && !errors.As(err, &failed) && !errors.Is(err, exec.ErrWaitDelay) {
		t.Fatalf("run %s: %v", cmd.Path, err)
	}
	s := seen{ended: cmd.ProcessState.Exited(), code: cmd.ProcessState.ExitCode(), out: stdout.String(), err: stderr.String(), all: w.exchanges()}
	for i := range s.all {
		e := &s.all[i]
		switch {
		case e.method != http.MethodPost:
		case e.stopped():
			if s.stops = append(s.stops, cmp.Or(e.answer, fmt.Sprint(e.status))); len(s.stops) == 1 {
				s.took = ended.Sub(e.at)
			}
		case len(s.stops) == 0:
			s.passed++
		default:
			s.after++
		}
	}
	return s
}

var toolName = regexp.MustCompile(`"name":\s*"([A-Za-z_.-]+)"`)

// calls are calls of the tools that the clients have.
var calls = []scripted.ToolCall{
	{Name: "weather", Arguments: `{"city":"Oslo"}`},
	{Name: "exec_command", Arguments: `{"cmd":"echo again"}`},
	{Name: "run_shell_command", Arguments: `{"command":"echo again","description":"again"}`},
	{Name: "run_commands", Arguments: `{"commands":["echo again"]}`},
	{Name: "bash", Arguments: `{"command":"echo again","description":"again"}`},
	{Name: "Bash", Arguments: `{"command":"echo again","description":"again"}`},
}

// loops is a model that asks for the same call of a tool forever.
func loops(r scripted.Request) scripted.Reply { return repeats(r, "again") }

// alternates is a model that asks for two calls in turn forever, for clients that end sooner
// if all calls are the same.
func alternates(r scripted.Request) scripted.Reply {
	return repeats(r, []string{"again", "once more"}[r.Number%2])
}

// repeats returns a call of the client's tool, in which word stands for "again".
func repeats(r scripted.Request, word string) scripted.Reply {
	for _, call := range calls {
		for _, m := range toolName.FindAllSubmatch(r.Body, -1) {
			if string(m[1]) == call.Name && bytes.Contains(r.Body, []byte(`"tools"`)) {
				call.ID, call.Arguments = fmt.Sprintf("call_%d", r.Number), strings.ReplaceAll(call.Arguments, "again", word)
				return scripted.Tools(call)
			}
		}
	}
	return scripted.Text("Nothing to do.")
}

// says is a model that is done at once.
func says(scripted.Request) scripted.Reply { return scripted.Text("It is sunny.") }
