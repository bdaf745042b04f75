package e2e

import (
	"bytes"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/unloop/unloop/deploy/unloop/system"
	"github.com/unloop/unloop/detector"
	"github.com/unloop/unloop/embedworker/realparts"
	"github.com/unloop/unloop/schemas"
	"github.com/unloop/unloop/schemas/kit/natskit"
	"github.com/unloop/unloop/schemas/kit/natstest"
	"github.com/unloop/unloop/schemas/kit/service"
)

// backWithin bounds how long detection may be away after a fault; on a healthy
// machine it takes less than a second.
const backWithin = time.Minute

// patient is the semantic detector alone, by its source's rule, for requests
// that wait long enough for their verdict, and not forever for a dead worker.
const patient = "bundle_version: 1\npolicies:\n  - {id: meaning, spec: {semantic: {min_matches: 1, budget_ms: 2000}}}\n"

// patientFor is how long they wait.
const patientFor = 2 * time.Second

// clearChecks counts texts that were like none before.
const clearChecks = `unloop_detector_semantic_checks_total{result="clear"}`

// said is a prompt of one session in one of three wordings.
func said(wording int) call { return prompt(wordings[wording]).with("X-Session-ID", "s") }

// untilHinted asks again and again until the answer bears a hint. Every request
// has to pass meanwhile.
func untilHinted(t *testing.T, url string, c call) {
	t.Helper()
	began := time.Now()
	for n := 1; ; n++ {
		a := send(t, url, c)
		switch {
		case a.status != http.StatusOK:
			t.Fatalf("request %d: status %d", n, a.status)
		case a.header.Get("X-Loop-Action") == "hint":
			t.Logf("detection is back after %s and %d requests", time.Since(began).Round(time.Millisecond), n)
			return
		case time.Since(began) > backWithin:
			t.Fatalf("detection is not back after %s", backWithin)
		}
	}
}

// startDetector runs a detector until the test ends.
func startDetector(t *testing.T, server *natstest.Server) (stop func()) {
	t.Helper()
	d, err := detector.New(service.Deps{
		Log: slog.New(slog.DiscardHandler), Metrics: prometheus.NewRegistry(), NATS: server.Service(), Layout: server.Layout(),
	})
	if err != nil {
		t.Fatal(err)
	}
	return runStoppable(t, d)
}

// workerProcess runs an embedding worker as a process of its own, which ends
// with the test at the latest.
func workerProcess(t *testing.T, natsURL string) *exec.Cmd {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0], "embedworker", "--nats", natsURL, "--admin", "127.0.0.1:0", "--embedder", "lexical")
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + t.TempDir(), roleVariable + "=unloop"}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	return cmd
}

// tap is a way to a NATS server that can keep back what a client sends.
type tap struct {
	user   string // credentials for the server
	server string
	ln     net.Listener
	mu     sync.Mutex
	// armed says that from the next text on nothing more is passed to the server;
	// arrived is closed when that text is with the client.
	armed   bool
	arrived chan struct{}
}

func tapInto(t *testing.T, url string) *tap {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	user, server, _ := strings.Cut(strings.TrimPrefix(url, "nats://"), "@")
	p := &tap{user: user, server: server, ln: ln, arrived: make(chan struct{})}
	t.Cleanup(func() { _ = ln.Close() })
	go func() {
		for {
			client, err := ln.Accept()
			if err != nil {
				return
			}
			go p.serve(client)
		}
	}()
	return p
}

func (p *tap) url() string { return "nats://" + p.user + "@" + p.ln.Addr().String() }

func (p *tap) arm() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.armed = true
}

func (p *tap) serve(client net.Conn) {
	defer func() { _ = client.Close() }()
	server, err := net.Dial("tcp", p.server)
	if err != nil {
		return
	}
	defer func() { _ = server.Close() }()
	hold := make(chan struct{})
	go p.toClient(client, server, hold)
	for buf := make([]byte, 64<<10); ; {
		n, err := client.Read(buf)
		select {
		case <-hold:
			_, _ = io.Copy(io.Discard, client) // until it dies
			return
		default:
		}
		if err != nil {
			return
		}
		if _, err := server.Write(buf[:n]); err != nil {
			return
		}
	}
}

// toClient passes on what the server sends, and sees texts come by.
func (p *tap) toClient(client, server net.Conn, hold chan<- struct{}) {
	defer func() { _ = client.Close() }()
	for buf := make([]byte, 64<<10); ; {
		n, err := server.Read(buf)
		if err != nil {
			return
		}
		text := bytes.Contains(buf[:n], []byte("MSG "+schemas.SubjectSemantic+" "))
		p.mu.Lock()
		text = text && p.armed
		p.armed = p.armed && !text
		p.mu.Unlock()
		if text {
			close(hold)
		}
		if _, err := client.Write(buf[:n]); err != nil {
			return
		}
		if text {
			close(p.arrived)
		}
	}
}

func TestWorkerKilledInMidRequestLetsItPassAndAnotherGoesOn(t *testing.T) {
	t.Parallel()
	server := natstest.Start(t)
	startDetector(t, server)
	url := startGateway(t, server.Conn(), &lines{}, echo(t), policies(t, patient), func(cfg *system.Config) { cfg.Gateway.CheckTimeout = checkTimeout })
	way := tapInto(t, server.URL())
	worker := workerProcess(t, way.url())
	untilHinted(t, url, said(0))

	way.arm()
	answer, sent := make(chan answered, 1), time.Now()
	go func() {
		a, err := trySend(url, said(1))
		if err != nil {
			t.Errorf("request in flight: %v", err)
		}
		answer <- a
	}()
	<-way.arrived
	select {
	case a := <-answer:
		if waited := time.Since(sent); waited < patientFor { // the test may have lacked a processor since then
			t.Fatalf("the request did not wait for the worker: status %d after %s", a.status, waited)
		}
		answer <- a
	default:
	}
	if err := worker.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	if a := <-answer; a.status != http.StatusOK || a.header.Get("X-Loop-Action") != "" || a.header.Get("X-Loop-Degraded") != "semantic" {
		t.Errorf("request in flight: status %d, %v; want it to pass unjudged", a.status, a.header)
	}
	if a := send(t, url, said(2)); a.status != http.StatusOK || a.header.Get("X-Loop-Action") != "" || a.header.Get("X-Loop-Degraded") != "semantic" {
		t.Errorf("without a worker: status %d, %v", a.status, a.header)
	}
	workerProcess(t, server.URL())
	untilHinted(t, url, said(2))
}

func TestRequestsPassWhileRedisIsAwayAndDetectionComesBack(t *testing.T) {
	t.Parallel()
	redis := realparts.Redis(t)
	s := start(t, echo(t), policies(t, patient), func(cfg *system.Config) {
		cfg.Embedworker.VectorStore, cfg.Embedworker.Redis = "redis", redis.URL()
	})
	untilHinted(t, s.URL(), said(0))
	redis.Stop()
	for i := range 3 {
		if a := send(t, s.URL(), said(i)); a.status != http.StatusOK || a.header.Get("X-Loop-Action") != "" || a.header.Get("X-Loop-Degraded") != "semantic" {
			t.Errorf("without Redis: status %d, %v", a.status, a.header)
		}
	}
	awaitMetric(t, s, `unloop_detector_semantic_checks_total{result="worker-error"}`, func(n float64) bool { return n > 0 })
	redis.Start()
	untilHinted(t, s.URL(), said(1))
}

func TestRequestsPassWhileNATSRestartsAndHistoriesOutliveIt(t *testing.T) {
	t.Parallel()
	cfg := natskit.EmbeddedConfig{Listen: natstest.FreeAddr(t), DataDir: t.TempDir()}
	address := ""
	run := func() (stop func()) {
		t.Helper()
		server, err := natskit.StartEmbedded(cfg, slog.New(slog.DiscardHandler))
		if err != nil {
			t.Fatal(err)
		}
		address = server.URL()
		stop = sync.OnceFunc(server.Stop)
		t.Cleanup(stop)
		return stop
	}
	stop := run()
	s, end := startLogging(t, slog.New(slog.DiscardHandler), echo(t), inProcess, policies(t, patient), func(c *system.Config) { c.NATS = address })
	defer end() // before the server
	send(t, s.URL(), said(0))
	awaitMetric(t, s, clearChecks, func(n float64) bool { return n == 1 })
	stop()
	for i := range 3 {
		if a := send(t, s.URL(), said(i)); a.status != http.StatusOK {
			t.Errorf("without NATS: status %d, %v; want it to pass", a.status, a.header)
		}
	}
	awaitMetric(t, s, `unloop_detector_semantic_checks_total{result="worker-error"}`, func(n float64) bool { return n > 0 })
	run()
	untilHinted(t, s.URL(), said(1))
	if n := metric(t, s, clearChecks); n != 1 {
		t.Errorf("%v texts were like none before, want the first alone: the history is lost", n)
	}
}

func TestOfTwoAtTheSameMomentOneIsFound(t *testing.T) {
	t.Parallel()
	server := natstest.Start(t)
	startDetector(t, server)
	startDetector(t, server)
	workerProcess(t, server.URL())
	workerProcess(t, server.URL())
	awaitWorkers(t, server, 2) // a detector that found none would not ask for a while
	var urls [2]string
	for i := range urls {
		urls[i] = startGateway(t, server.Conn(), &lines{}, echo(t), policies(t, meaning), func(cfg *system.Config) { cfg.Gateway.CheckTimeout = checkTimeout })
	}
	for round := range 20 {
		both := said(0).with("X-Session-ID", fmt.Sprint("round ", round))
		var found atomic.Int64
		var ready, done sync.WaitGroup
		ready.Add(len(urls))
		for _, url := range urls {
			done.Go(func() {
				ready.Done()
				ready.Wait()
				a, err := trySend(url, both)
				if err != nil || a.status != http.StatusOK || a.header.Get("X-Loop-Degraded") != "" {
					t.Errorf("status %d, %v, %v", a.status, a.header, err)
				}
				if a.header.Get("X-Loop-Action") == "hint" {
					found.Add(1)
				}
			})
		}
		done.Wait()
		if found.Load() == 0 {
			t.Errorf("round %d: neither was found", round)
		}
	}
}

// awaitWorkers returns once so many embedding workers take texts.
func awaitWorkers(t *testing.T, server *natstest.Server, n int) {
	t.Helper()
	nc := server.Conn()
	for deadline := time.Now().Add(backWithin); time.Now().Before(deadline); {
		answers, err := nc.SubscribeSync(nc.NewInbox())
		if err == nil {
			err = nc.PublishRequest("$SRV.INFO.unloop-embedworker", answers.Subject, nil)
		}
		if err != nil {
			t.Fatal(err)
		}
		taking := 0
		for taking < n {
			info, err := answers.NextMsg(100 * time.Millisecond)
			if err != nil {
				break
			}
			if bytes.Contains(info.Data, []byte(`"`+schemas.SubjectSemantic+`"`)) {
				taking++
			}
		}
		if taking == n {
			return
		}
	}
	t.Fatalf("there are no %d workers after %s", n, backWithin)
}
