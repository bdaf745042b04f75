package service

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/alecthomas/kong"

	"github.com/unloop/unloop/schemas/kit/access"
	"github.com/unloop/unloop/schemas/kit/natskit"
	"github.com/unloop/unloop/schemas/kit/natstest"
)

// patience bounds what a test waits for; nothing healthy comes near it.
const patience = 30 * time.Second

// worker is a service that is ready while it runs, and ends with an error that it
// is sent.
type worker struct {
	ready Readiness
	fail  chan error
	ended chan struct{}
}

func newWorker() *worker { return &worker{fail: make(chan error, 1), ended: make(chan struct{})} }

func (w *worker) Readiness() *Readiness { return &w.ready }

func (w *worker) Run(ctx context.Context) error {
	defer close(w.ended)
	w.ready.Set(nil)
	select {
	case err := <-w.fail:
		return err
	case <-ctx.Done():
		w.ready.Set(ErrDraining)
		return ctx.Err()
	}
}

func get(t *testing.T, url string, header ...string) (status int, body string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	if len(header) > 0 {
		req.Header.Set(header[0], header[1])
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res.StatusCode, string(text)
}

// keyFile returns the path of a file with a key.
func keyFile(t *testing.T, key string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "key")
	if err := os.WriteFile(file, []byte(key), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

const adminKey = "0123456789abcdef0123"

func TestAdminPort(t *testing.T) {
	t.Parallel()
	first, second := newWorker(), newWorker()
	admin, err := NewAdmin("127.0.0.1:0", access.Allowed{}, NewRegistry(), Named{"first", first}, Named{"second", second})
	if err != nil {
		t.Fatal(err)
	}
	guard, err := AdminGuard([]string{"key:file:" + keyFile(t, adminKey)})
	if err != nil {
		t.Fatal(err)
	}
	admin.Require(nil)
	admin.Require(guard)
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- admin.Run(ctx) }()
	url := "http://" + admin.Addr()
	if err := admin.Readiness().Err(); err != nil {
		t.Errorf("the admin port is not ready: %v", err)
	}
	check := func(path, key string, status int, wants ...string) {
		t.Helper()
		var header []string
		if key != "" {
			header = []string{access.Header, key}
		}
		got, body := get(t, url+path, header...)
		if got != status {
			t.Errorf("%s: status %d, want %d", path, got, status)
		}
		for _, want := range wants {
			if !strings.Contains(body, want) {
				t.Errorf("%s: no %q in %q", path, want, body)
			}
		}
	}
	check("/healthz", "", http.StatusOK, "ok")
	check("/readyz", adminKey, http.StatusServiceUnavailable, "first: starting", "second: starting")
	first.ready.Set(nil)
	second.ready.Set(errors.New("no disk"))
	check("/readyz", adminKey, http.StatusServiceUnavailable, "first: ready", "second: no disk")
	second.ready.Set(nil)
	check("/readyz", "", http.StatusOK)
	if _, body := get(t, url+"/readyz"); body != "" {
		t.Errorf("without a key /readyz says %q", body)
	}
	check("/metrics", "", http.StatusUnauthorized)
	check("/metrics", adminKey, http.StatusOK, "unloop_build_info", "go_goroutines")
	if status, _ := get(t, url+"/healthz", "Origin", "https://page.example"); status != http.StatusForbidden {
		t.Errorf("a web page's request: status %d", status)
	}
	stop()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

func TestAdminPortThatCantBeOpened(t *testing.T) {
	t.Parallel()
	if _, err := NewAdmin("nowhere", access.Allowed{}, NewRegistry()); err == nil || !strings.Contains(err.Error(), "--admin nowhere") {
		t.Errorf("no address: %v", err)
	}
	if _, err := NewAdmin("127.0.0.1:0", access.Allowed{AllowHost: []string{"a b"}}, NewRegistry()); err == nil || !strings.Contains(err.Error(), "--allow-host") {
		t.Errorf("no host name: %v", err)
	}
}

func TestServicesEndTogether(t *testing.T) {
	t.Parallel()
	broken := errors.New("broken")
	for name, end := range map[string]func(w *worker, stop func()) error{
		"one fails":       func(w *worker, _ func()) error { w.fail <- broken; return broken },
		"told to stop":    func(_ *worker, stop func()) error { stop(); return nil },
		"ends by itself":  func(w *worker, stop func()) error { w.fail <- nil; stop(); return nil },
		"ends cancelled":  func(w *worker, stop func()) error { w.fail <- context.Canceled; stop(); return nil },
		"both and a stop": func(w *worker, stop func()) error { w.fail <- broken; <-w.ended; stop(); return broken },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx, stop := context.WithCancel(t.Context())
			first, second := newWorker(), newWorker()
			done := make(chan error, 1)
			go func() { done <- RunAll(ctx, Named{"first", first}, Named{"second", second}) }()
			want := end(first, stop)
			<-second.ended
			if err := <-done; !errors.Is(err, want) || want != nil && !strings.Contains(err.Error(), "run first") {
				t.Errorf("got %v, want %v", err, want)
			}
		})
	}
}

// lines is a log that can be read while it is written.
type lines chan string

func (l lines) Write(p []byte) (int, error) {
	l <- string(p)
	return len(p), nil
}

// until returns the first line with a text.
func (l lines) until(t *testing.T, want string) string {
	t.Helper()
	for {
		select {
		case line := <-l:
			if strings.Contains(line, want) {
				return line
			}
		case <-time.After(patience):
			t.Fatalf("no %q was logged", want)
		}
	}
}

func TestOneServiceAsAProcess(t *testing.T) {
	t.Parallel()
	s := natstest.Start(t)
	w := newWorker()
	log := make(lines, 100)
	process := Process{Admin: "127.0.0.1:0", LogFormat: "json", LogLevel: "debug"}
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		done <- RunOne(ctx, "worker", process, Cluster{NATS: s.URL(), Replicas: 1}, process.Logger(log), func(d Deps) (Service, error) {
			return w, d.NATS.EnsureStreams(ctx, d.Layout)
		})
	}()
	line := log.until(t, `"started"`)
	_, rest, _ := strings.Cut(line, `"admin":"`)
	addr, _, _ := strings.Cut(rest, `"`)
	wait, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if err := w.ready.Wait(wait); err != nil {
		t.Fatal(err)
	}
	if status, body := get(t, "http://"+addr+"/readyz"); status != http.StatusOK || body != "worker: ready\n" {
		t.Errorf("/readyz: %d %q", status, body)
	}
	_, body := get(t, "http://"+addr+"/metrics")
	for _, want := range []string{
		`unloop_nats_connected{connection="worker"} 1`, `unloop_nats_ready{connection="worker"} 1`,
		`unloop_nats_last_write_timestamp_seconds{connection="worker"}`,
	} {
		if !strings.Contains(body, want) {
			t.Errorf("no %s in the metrics", want)
		}
	}
	stop()
	if err := <-done; err != nil {
		t.Error(err)
	}
	if err := w.ready.Err(); !errors.Is(err, ErrDraining) {
		t.Errorf("readiness at the end: %v", err)
	}
}

// A service whose NATS servers have state of a later release ends, and says why.
func TestAServiceRefusesStateOfALaterRelease(t *testing.T) {
	t.Parallel()
	s := natstest.Start(t)
	js := s.JetStream()
	stream, err := js.Stream(t.Context(), "LOOP_EVENTS")
	if err != nil {
		t.Fatal(err)
	}
	cfg := stream.CachedInfo().Config
	cfg.Metadata["unloop.state"] = "99"
	if _, err := js.UpdateStream(t.Context(), cfg); err != nil {
		t.Fatal(err)
	}
	err = RunOne(t.Context(), "worker", Process{Admin: "127.0.0.1:0"}, Cluster{NATS: s.URL(), Replicas: 1}, slog.New(slog.DiscardHandler), func(Deps) (Service, error) {
		return newWorker(), nil
	})
	if !errors.Is(err, natskit.ErrState) || !strings.Contains(err.Error(), "LOOP_EVENTS") {
		t.Errorf("it ended with %v", err)
	}
}

func TestAProcessThatCantStart(t *testing.T) {
	t.Parallel()
	refused := errors.New("refused")
	build := func(Deps) (Service, error) { return newWorker(), nil }
	for name, c := range map[string]struct {
		process Process
		nats    string
		build   func(Deps) (Service, error)
		want    string
	}{
		"an open admin port": {Process{Admin: ":0"}, "nats://127.0.0.1:1", build, "--insecure"},
		"a key that is not":  {Process{Admin: "127.0.0.1:0", AdminAuth: []string{"key:file:/no/such/key"}}, "nats://127.0.0.1:1", build, "--admin-auth"},
		"a malformed URL":    {Process{Admin: "127.0.0.1:0"}, "nats://a b@c:x", build, "--nats"},
		"no service":         {Process{Admin: "127.0.0.1:0"}, "nats://127.0.0.1:1", func(Deps) (Service, error) { return nil, refused }, "refused"},
		"no admin port":      {Process{Admin: "127.0.0.1:x"}, "nats://127.0.0.1:1", build, "--admin"},
	} {
		err := RunOne(t.Context(), "worker", c.process, Cluster{NATS: c.nats}, slog.New(slog.DiscardHandler), c.build)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}

func TestAFailedServiceEndsItsProcess(t *testing.T) {
	t.Parallel()
	w := newWorker()
	broken := errors.New("broken")
	w.fail <- broken
	log := make(lines, 100)
	err := RunOne(t.Context(), "worker", Process{Admin: "127.0.0.1:0"}, Cluster{NATS: "nats://127.0.0.1:1"}, slog.New(slog.NewTextHandler(log, nil)), func(Deps) (Service, error) { return w, nil })
	if !errors.Is(err, broken) {
		t.Errorf("got %v, want %v", err, broken)
	}
	if line := log.until(t, "started"); !strings.Contains(line, "not connected yet") {
		t.Errorf("logged %q without a server", line)
	}
}

// flags are the flags of a process in tests.
type flags struct {
	Process
	Cluster
	Token string   `secret:"" help:"A secret."`
	Run   struct{} `cmd:"" default:"1" help:"Run."`
}

func TestFlagsHaveVariables(t *testing.T) {
	t.Parallel()
	var f flags
	k, err := NewParser(&f, "worker", "Works.")
	if err != nil {
		t.Fatal(err)
	}
	parsed, err := k.Parse([]string{"--token", "abc", "--log-level", "warn"})
	if err != nil {
		t.Fatal(err)
	}
	if got := ShownSecrets(parsed); len(got) != 1 || got[0] != "--token" {
		t.Errorf("secrets on the command line: %v", got)
	}
	if f.Admin != "127.0.0.1:8081" || f.NATS != "nats://127.0.0.1:4222" || f.Replicas != 1 {
		t.Errorf("defaults: %+v", f)
	}
	environ := []string{"UNLOOP_ADMIN=127.0.0.1:1", "UNLOOP_ADMON=x", "PATH=/bin", "UNLOOP_NATS=y", "UNLOOP_TEST_NODE=/usr/bin/node"}
	if got := UnknownEnv(k, environ); len(got) != 1 || got[0] != "UNLOOP_ADMON" {
		t.Errorf("unknown variables: %v", got)
	}
}

func TestLogger(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ format, level, want string }{
		{"json", "warn", `"msg":"loud"`}, {"text", "warn", "msg=loud"}, {"text", "shouting", "msg=quiet"},
	} {
		var out bytes.Buffer
		log := Process{LogFormat: c.format, LogLevel: c.level}.Logger(&out)
		log.Info("quiet")
		log.Warn("loud")
		if text := out.String(); !strings.Contains(text, c.want) || strings.Contains(text, "quiet") != (c.level == "shouting") {
			t.Errorf("%s at %s: %q", c.format, c.level, text)
		}
	}
}

func TestMainReturnsTheExitCode(t *testing.T) { //nolint:paralleltest // it changes os.Args
	args := os.Args
	t.Cleanup(func() { os.Args = args })
	os.Args = []string{"worker", "--admin", "0.0.0.0:0", "--token", "abc"}
	t.Setenv("UNLOOP_ADMON", "x")
	if code := Main("worker", &workerCommand{}); code != 1 {
		t.Errorf("an open admin port: exit code %d", code)
	}
	if code := Main("worker", workerCommand{}); code != 2 {
		t.Errorf("flags that can't be read: exit code %d", code)
	}
	os.Args = []string{"worker", "--admin", "127.0.0.1:0", "--nats", "nats://127.0.0.1:1"}
	w := newWorker()
	w.fail <- nil
	if code := Main("worker", &workerCommand{worker: w}); code != 0 {
		t.Errorf("a service that ended: exit code %d", code)
	}
}

// workerCommand is a worker as a command.
type workerCommand struct {
	Member
	Token  string  `secret:"" help:"A secret."`
	worker *worker `kong:"-"`
}

func (c workerCommand) Run(ctx context.Context, log Log) error {
	return c.Serve(ctx, "worker", log, func(Deps) (Service, error) { return c.worker, nil })
}

func TestHelpHasDefaultsAndVariables(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	k, err := NewParser(&workerCommand{}, "worker", "Works.", kong.Writers(&out, &out), kong.Exit(func(int) {}))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := k.Parse([]string{"--help"}); err != nil {
		t.Fatal(err)
	}
	said := strings.Join(strings.Fields(out.String()), " ")
	for _, want := range []string{
		"NATS: --nats=URL NATS servers, separated by commas. Default: nats://127.0.0.1:4222. ($UNLOOP_NATS)",
		"Process: --admin=ADDR", "--insecure Allow addresses other than loopback without authentication. ($UNLOOP_INSECURE)",
	} {
		if !strings.Contains(said, want) {
			t.Errorf("no %q in\n%s", want, &out)
		}
	}
}

func TestBuildInfoIsOnOneLine(t *testing.T) {
	t.Parallel()
	for want, b := range map[string]Build{
		"1.2.3, revision 0123456789ab with changes, of 2026-05-22T14:30:00Z, go1.26, linux/amd64": {
			Version: "1.2.3", Revision: "0123456789abcdef", Time: "2026-05-22T14:30:00Z", Modified: true, Go: "go1.26", Platform: "linux/amd64",
		},
		"unknown, go1.26, linux/amd64": {Version: "unknown", Revision: "unknown", Go: "go1.26", Platform: "linux/amd64"},
	} {
		if got := b.String(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	if b := BuildInfo(); b.Version == "" || b.Revision == "" || b.Go == "" {
		t.Errorf("this binary is %+v", b)
	}
}

func TestReadinessIsWaitedFor(t *testing.T) {
	t.Parallel()
	var r Readiness
	go r.Set(nil)
	if err := r.Wait(t.Context()); err != nil {
		t.Error(err)
	}
	away := errors.New("away")
	r.Set(away)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := r.Wait(ctx); !errors.Is(err, context.Canceled) || !errors.Is(err, away) {
		t.Errorf("got %v, want the context's end and the reason", err)
	}
}

func TestConnectionsThatAreLostShowInTheMetrics(t *testing.T) {
	t.Parallel()
	conn, err := natskit.Connect("nats://127.0.0.1:1", "worker", slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(conn.Close)
	reg, w := NewRegistry(), newWorker()
	w.ready.Set(nil)
	Attach(t.Context(), "worker", w, reg, conn, natskit.Layout{})
	if err := w.ready.Err(); !errors.Is(err, natskit.ErrNotConnected) {
		t.Errorf("readiness %v, want that there is no server", err)
	}
	all, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range all {
		name := family.GetName()
		if (name == "unloop_ready" || strings.HasPrefix(name, "unloop_nats_")) && family.GetMetric()[0].GetGauge().GetValue() != 0 {
			t.Errorf("%s is %v without a server", name, family.GetMetric()[0])
		}
	}
}
