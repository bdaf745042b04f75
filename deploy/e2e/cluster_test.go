package e2e

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/protobuf/proto"

	"github.com/unloop/unloop/deploy/unloop/system"
	"github.com/unloop/unloop/detector"
	"github.com/unloop/unloop/gateway"
	"github.com/unloop/unloop/schemas"
	"github.com/unloop/unloop/schemas/checkpb"
	"github.com/unloop/unloop/schemas/kit/natskit"
	"github.com/unloop/unloop/schemas/kit/natstest"
	"github.com/unloop/unloop/schemas/kit/service"
)

// join makes a system use another one's NATS server.
func join(first *system.System) func(*system.Config) {
	return func(cfg *system.Config) { cfg.NATS = first.NATSURL() }
}

// connect is a NATS connection that closes with the test.
func connect(t *testing.T, s *system.System) *nats.Conn {
	t.Helper()
	nc, err := nats.Connect(s.NATSURL(), nats.Timeout(patience))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	return nc
}

// asService is a connection such as services have, to the server of a client.
func asService(t *testing.T, nc *nats.Conn) *natskit.Conn {
	t.Helper()
	conn, err := natskit.Connect(nc.ConnectedUrl(), "test", slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(conn.Close)
	return conn
}

// extraDetector runs one more detector beside a system.
func extraDetector(t *testing.T, s *system.System) {
	t.Helper()
	d, err := detector.New(service.Deps{
		Log: slog.New(slog.DiscardHandler), Metrics: prometheus.NewRegistry(), NATS: asService(t, connect(t, s)),
	})
	if err != nil {
		t.Fatal(err)
	}
	runService(t, d)
}

// eachCounts counts requests that are in flight together one by one.
const eachCounts = "bundle_version: 1\ncompat: [aisg]\npolicies:\n  - {id: default, spec: {selector: {methods: [POST]}, prompt: {}, tool: {}, cycle: {}, semantic: {}}}\n"

func TestTwoGatewaysAndThreeDetectorsLetExactlyFiveThrough(t *testing.T) {
	t.Parallel()
	upstream := echo(t)
	bundle := policies(t, eachCounts)
	first := start(t, upstream, bundle) // its gateway asks the detector beside it
	extraDetector(t, first)
	extraDetector(t, first)
	second := startGateway(t, connect(t, first), new(lines), upstream, bundle, func(cfg *system.Config) { cfg.Gateway.CheckTimeout = checkTimeout })
	for round := range 5 {
		var mu sync.Mutex
		counts := map[int]int{}
		var wg sync.WaitGroup
		for i := range 200 {
			url := first.URL()
			if i%2 == 1 {
				url = second
			}
			wg.Go(func() {
				a, err := trySend(url, prompt(fmt.Sprint("storm ", round)))
				mu.Lock()
				defer mu.Unlock()
				// Two hundred at once may be too many to be judged by their meaning in time.
				if degraded := a.header.Get("X-Loop-Degraded"); err != nil || degraded != "" && degraded != "semantic" {
					t.Errorf("not checked: %v %s", err, a.header.Get("X-Loop-Degraded"))
				}
				counts[a.status]++
			})
		}
		wg.Wait()
		if counts[http.StatusOK] != 5 || counts[http.StatusTooManyRequests] != 195 {
			t.Errorf("round %d: %v; want 5 passed, 195 rejected", round, counts)
		}
	}
}

// While detectors come and go, the loops of many callers move from one to another. Each
// request counts once all the same, and none passes without a check.
func TestExactlyFivePassWhileDetectorsComeAndGo(t *testing.T) {
	t.Parallel()
	upstream, bundle, server := echo(t), policies(t, eachCounts), natstest.Start(t)
	unhurried := func(cfg *system.Config) { cfg.Gateway.CheckTimeout = checkTimeout }
	stops := []func(){startDetector(t, server), startDetector(t, server)}
	var gateways []string
	for range 2 {
		gateways = append(gateways, startGateway(t, server.Conn(), new(lines), upstream, bundle, unhurried))
	}
	const callers, requests = 8, 25
	for round := range 6 {
		var mu sync.Mutex
		passed := map[int]int{}
		var storm sync.WaitGroup
		for i := range callers * requests {
			storm.Go(func() {
				caller := i % callers
				a, err := trySend(gateways[i/callers%2], prompt(fmt.Sprint("storm ", round)).of(fmt.Sprint("sk-", caller)))
				mu.Lock()
				defer mu.Unlock()
				if degraded := a.header.Get("X-Loop-Degraded"); err != nil || degraded != "" && degraded != "semantic" {
					t.Errorf("not checked: %v %s", err, degraded)
				}
				if a.status == http.StatusOK {
					passed[caller]++
				}
			})
		}
		if round%2 == 0 { // in the middle of the storm
			stops = append(stops, startDetector(t, server), startDetector(t, server))
		} else {
			stops[0]()
			stops[1]()
			stops = stops[2:]
		}
		storm.Wait()
		for caller := range callers {
			if passed[caller] != 5 {
				t.Errorf("round %d: %d requests of caller %d passed, want 5", round, passed[caller], caller)
			}
		}
	}
}

// Within one process neither a check nor a text passes the server.
func TestRequestsWithinAProcessDoNotPassTheServer(t *testing.T) {
	t.Parallel()
	s := start(t, echo(t), inProcess)
	observer := connect(t, s)
	seen := make(chan *nats.Msg, 100)
	// Detectors report their presence on other subjects all the time.
	for _, subject := range []string{schemas.SubjectCheck, schemas.SubjectSemantic} {
		if _, err := observer.ChanSubscribe(subject, seen); err != nil {
			t.Fatal(err)
		}
	}
	if err := observer.Flush(); err != nil {
		t.Fatal(err)
	}
	send(t, s.URL(), prompt(wordings[0]))
	if n := metric(t, s, `unloop_gateway_checks_total{result="decided"}`); n != 1 {
		t.Errorf("%v checks were decided", n)
	}
	awaitMetric(t, s, `unloop_semantic_checks_total{result="clear"}`, func(n float64) bool { return n == 1 })
	if err := observer.Flush(); err != nil {
		t.Fatal(err)
	}
	if n := len(seen); n != 0 {
		t.Errorf("%d messages passed the server", n)
	}
}

// What passes since no detector decides in time says so, and is not more than a policy
// allows of what is decided.
func TestWhatPassesBeyondTheLimitSaysThatItWasNotChecked(t *testing.T) {
	t.Parallel()
	server, reg := natstest.Start(t), prometheus.NewRegistry()
	nc := server.Conn()
	silent, err := nc.QueueSubscribe(schemas.SubjectCheck, schemas.QueueDetector, func(*nats.Msg) {})
	if err == nil {
		err = nc.Flush()
	}
	if err != nil {
		t.Fatal(err)
	}
	url := startMeasured(t, reg, server.Conn(), &lines{}, echo(t))
	passed, degraded := 0, 0
	ask := func() {
		a := send(t, url, prompt("again"))
		if a.status == http.StatusOK {
			passed++
		}
		if a.header.Get("X-Loop-Degraded") == "timeout" {
			degraded++
		}
	}
	for deadline := time.Now().Add(backWithin); degraded < 3; { // a process that lacks processors says that it is overloaded
		if ask(); time.Now().After(deadline) {
			t.Fatalf("%d of %d requests say that they were not checked", degraded, passed)
		}
	}
	if err := errors.Join(silent.Unsubscribe(), nc.Flush()); err != nil {
		t.Fatal(err)
	}
	startDetector(t, server)
	for range 100 {
		ask()
	}
	if passed-degraded > 5 {
		t.Errorf("%d passed, %d of them unchecked; at most 5 may pass checked", passed, degraded)
	}
	if n := sampled(t, reg, "unloop_gateway_checks_total", "timeout"); n != float64(degraded) {
		t.Errorf("metric counts %v unchecked requests, headers %d", n, degraded)
	}
}

// sampled returns the sample of a counter with a label of that value.
func sampled(t *testing.T, reg *prometheus.Registry, name, label string) float64 {
	t.Helper()
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range families {
		for _, m := range family.GetMetric() {
			if family.GetName() == name && m.GetLabel()[0].GetValue() == label {
				return m.GetCounter().GetValue()
			}
		}
	}
	return 0
}

func TestGatewaysLearnBlocksFromEachOther(t *testing.T) {
	t.Parallel()
	upstream := echo(t)
	first := start(t, upstream)
	second := start(t, upstream, join(first))
	statuses(t, first.URL(), prompt("again"), 6)
	awaitMetric(t, second, "unloop_gateway_standing_blocks", func(n float64) bool { return n == 1 })
	if a := send(t, second.URL(), prompt("again")); a.status != http.StatusTooManyRequests {
		t.Errorf("status %d at the other gateway", a.status)
	}
	if n := metric(t, second, `unloop_gateway_checks_total{result="decided"}`); n != 0 {
		t.Errorf("the other gateway asked %v times", n)
	}
}

func TestReleaseTakesEffectAtEveryGateway(t *testing.T) {
	t.Parallel()
	upstream := echo(t)
	first := start(t, upstream)
	second := start(t, upstream, join(first))
	statuses(t, first.URL(), prompt("again"), 6)
	awaitMetric(t, second, "unloop_gateway_standing_blocks", func(n float64) bool { return n == 1 })
	id := send(t, second.URL(), prompt("again")).refusal(t).Detail.LoopID

	body, err := proto.Marshal(&checkpb.ReleaseRequest{LoopId: id})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := connect(t, first).Request(schemas.SubjectRelease, body, time.Minute); err != nil {
		t.Fatal(err)
	}
	for _, s := range []*system.System{first, second} {
		awaitMetric(t, s, "unloop_gateway_standing_blocks", func(n float64) bool { return n == 0 })
		if a := send(t, s.URL(), prompt("again")); a.status != http.StatusOK {
			t.Errorf("after the release: status %d", a.status)
		}
	}
}

func TestFailureModeDecidesWithoutDetectors(t *testing.T) {
	t.Parallel()
	server := natstest.Start(t)
	var log lines
	patiently := func(cfg *system.Config) { cfg.Gateway.CheckTimeout = checkTimeout }
	open := startGateway(t, server.Conn(), &log, echo(t), patiently)
	closed := startGateway(t, server.Conn(), &lines{}, echo(t), patiently, policies(t, `
bundle_version: 1
policies:
  - {id: strict, spec: {failure_mode: closed, selector: {pathPrefix: /v1/}, prompt: {max_hits: 5}}}
`))
	for range 8 {
		if a := send(t, open, prompt("again")); a.status != http.StatusOK || a.header.Get("X-Loop-Degraded") != "no-detector" || a.header.Get("X-Loop-Count") != "" {
			t.Fatalf("open: status %d, degraded %q, count %q; want it to pass and say so", a.status, a.header.Get("X-Loop-Degraded"), a.header.Get("X-Loop-Count"))
		}
	}
	a := send(t, closed, prompt("again"))
	if a.status != http.StatusServiceUnavailable || a.refusal(t).Error.Code != "loop_check_unavailable" {
		t.Errorf("closed: status %d, %s", a.status, a.body)
	}
	if n := strings.Count(log.String(), "requests are not checked"); n != 1 {
		t.Errorf("the outage is logged %d times, want once", n)
	}
}

// startGateway runs a gateway alone.
func startGateway(t *testing.T, nc *nats.Conn, log *lines, upstream string, edits ...func(*system.Config)) (url string) {
	t.Helper()
	return startMeasured(t, prometheus.NewRegistry(), nc, log, upstream, edits...)
}

// startMeasured is startGateway with metrics of the test's own.
func startMeasured(t *testing.T, metrics *prometheus.Registry, nc *nats.Conn, log *lines, upstream string, edits ...func(*system.Config)) (url string) {
	t.Helper()
	cfg := system.Config{Gateway: gateway.DefaultConfig()}
	cfg.Gateway.Reject = "429"
	cfg.Gateway.Listen, cfg.Gateway.Upstream = "127.0.0.1:0", map[string]string{"openai": upstream}
	for _, edit := range edits {
		edit(&cfg)
	}
	g, err := gateway.New(cfg.Gateway, service.Deps{
		Log: slog.New(slog.NewTextHandler(log, nil)), Metrics: metrics, NATS: asService(t, nc),
	})
	if err != nil {
		t.Fatal(err)
	}
	runService(t, g)
	return "http://" + g.Addr()
}

// runService runs a service until the test ends, and waits until it is ready.
func runService(t *testing.T, svc service.Service) {
	t.Helper()
	runStoppable(t, svc)
}

// runStoppable is runService; stop ends the service before the test does.
func runStoppable(t *testing.T, svc service.Service) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	done := make(chan error, 1)
	go func() { done <- svc.Run(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("run service: %v", err)
		}
	})
	t.Cleanup(stop)
	if err := svc.Readiness().Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	return stop
}

func TestStockNATSCommandShowsEvents(t *testing.T) {
	t.Parallel()
	command := need(t, "UNLOOP_TEST_NATS_CLI")
	s := start(t, echo(t))
	var out lines
	cmd := exec.CommandContext(t.Context(), command, "-s", s.NATSURL(), "sub", "loop.detected.>", "--count", "1")
	cmd.Stdout, cmd.Stderr = &out, &out
	done := make(chan error, 1)
	go func() { done <- cmd.Run() }()
	for loop := 0; ; loop++ { // it does not say when it listens, so there is a loop until it heard one
		statuses(t, s.URL(), prompt(fmt.Sprint("again ", loop)).with("X-Tenant-ID", "acme"), 6)
		select {
		case err := <-done:
			if err != nil {
				t.Fatalf("nats sub: %v\n%s", err, out.String())
			}
		default:
			if loop < 10_000 {
				continue
			}
			t.Fatalf("nats sub heard nothing:\n%s", out.String())
		}
		break
	}
	if got := out.String(); !strings.Contains(got, `"loop.detected.acme.default"`) || !strings.Contains(got, `"type":"loop.detected"`) {
		t.Errorf("nats sub printed:\n%s", got)
	}
	run := func(args ...string) string {
		printed, err := exec.CommandContext(t.Context(), command, append([]string{"-s", s.NATSURL(), "consumer"}, args...)...).CombinedOutput()
		if err != nil {
			t.Fatalf("nats consumer %v: %v\n%s", args, err, printed)
		}
		return string(printed)
	}
	run("add", "LOOP_EVENTS", "stock", "--pull", "--deliver", "all", "--ack", "explicit", "--filter", "loop.detected.acme.>", "--defaults")
	if got := run("next", "LOOP_EVENTS", "stock", "--count", "1"); !strings.Contains(got, `"type":"loop.detected"`) {
		t.Errorf("nats consumer next printed:\n%s", got)
	}
}

// lines collects what several goroutines write.
type lines struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(p)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.String()
}
