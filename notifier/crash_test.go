package notifier_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"

	"github.com/unloop/unloop/notifier"
	"github.com/unloop/unloop/schemas"
	"github.com/unloop/unloop/schemas/delivery"
	"github.com/unloop/unloop/schemas/event"
	"github.com/unloop/unloop/schemas/kit/natskit"
	"github.com/unloop/unloop/schemas/kit/natstest"
	"github.com/unloop/unloop/schemas/kit/service"
)

// childServer and childTarget are set in a process of this test that is a notifier.
const (
	childServer = "TEST_NOTIFIER_NATS"
	childTarget = "TEST_NOTIFIER_TARGET"
)

func TestMain(m *testing.M) {
	if url := os.Getenv(childServer); url != "" {
		if err := runChild(url, os.Getenv(childTarget)); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	goleak.VerifyTestMain(m)
}

// runChild runs a notifier until it is killed.
func runChild(url, target string) error {
	log := slog.New(slog.DiscardHandler)
	conn, err := natskit.Connect(url, "notifier", log)
	if err != nil {
		return err
	}
	n, err := notifier.New(crashConfig(target), service.Deps{Log: log, Metrics: prometheus.NewRegistry(), NATS: conn})
	if err != nil {
		return err
	}
	n.SetMargin(time.Second)
	return n.Run(context.Background())
}

func crashConfig(target string) notifier.Config {
	cfg := testConfig(target)
	cfg.WebhookTimeout = 5 * time.Second // a receiver that lacks a processor takes a message, and answers late
	for len(cfg.WebhookRetry) < 40 {
		cfg.WebhookRetry = append(cfg.WebhookRetry, time.Millisecond)
	}
	return cfg
}

// startChild starts a notifier as a process of its own.
func startChild(t *testing.T, server *natstest.Server, target string) *exec.Cmd {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), self)
	cmd.Env = append(os.Environ(), childServer+"="+server.URL(), childTarget+"="+target)
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() }) // it may be dead already
	return cmd
}

// A notifier that is killed while it and another one send loses no event. What was under
// way is sent again with the same id, and nothing else is sent twice.
func TestEventsSurviveANotifierThatIsKilled(t *testing.T) {
	t.Parallel()
	server := natstest.Start(t)
	const events = 1000
	var mu sync.Mutex
	taken := map[string]int{} // guarded by mu
	rec := newReceiver(t, func(w http.ResponseWriter, _ *http.Request, d delivered) {
		if (int(d.body[len(d.body)/2])+d.attempt)%2 == 0 {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		mu.Lock()
		defer mu.Unlock()
		taken[d.id()]++
	})
	rec.got = make(chan delivered, 100*events)
	js := server.JetStream()
	want := map[string]bool{}
	for i := range events {
		id := fmt.Sprint("evt-", i)
		publish(t, js, id)
		want[id] = true
	}
	child := startChild(t, server, rec.URL)
	seen := map[string]bool{}
	until := func(n int) {
		for len(seen) < n {
			seen[receive(t, rec.got).id()] = true
		}
	}
	until(events / 8)
	start(t, server.Conn(), crashConfig(rec.URL)).waitReady(t)
	until(events / 2)
	if err := child.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	wantDrained(t, server)
	for len(rec.got) > 0 {
		seen[receive(t, rec.got).id()] = true
	}
	for id := range seen {
		delete(want, id)
		if id == "" {
			t.Error("a message without an id")
		}
	}
	if len(want) != 0 || len(seen) != events {
		t.Errorf("%d events were lost, %d ids arrived", len(want), len(seen))
	}
	mu.Lock()
	defer mu.Unlock()
	twice := 0
	for _, n := range taken {
		twice += n - 1
	}
	if most := crashConfig(rec.URL).WebhookConcurrency; twice > most {
		t.Errorf("%d events were taken twice, and at most %d can have been under way", twice, most)
	}
}

// publishOf puts an event of a loop on the stream.
func publishOf(t *testing.T, js jetstream.JetStream, typ event.Type, loop string) {
	t.Helper()
	e := event.New(typ, loop+"."+string(typ), time.Now())
	e.TenantID, e.Data.LoopID, e.Data.Policy = "acme", loop, "agent-tools"
	e.Data.FirstSeen, e.Data.LastSeen, e.Data.Findings = e.Timestamp, e.Timestamp, []event.Finding{}
	body, err := json.Marshal(e)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := js.PublishMsg(t.Context(), &nats.Msg{Subject: e.Subject(), Header: e.Headers(), Data: body}); err != nil {
		t.Fatal(err)
	}
}

func TestTheEndOfALoopNeverOvertakesItsBeginning(t *testing.T) {
	t.Parallel()
	server := natstest.Start(t)
	rec := newReceiver(t, func(w http.ResponseWriter, _ *http.Request, d delivered) {
		if d.attempt < 4 && d.id() == "loop-1.loop.detected" {
			w.WriteHeader(http.StatusBadGateway)
		}
	})
	js := server.JetStream()
	for i := range 5 {
		publishOf(t, js, event.Detected, fmt.Sprint("loop-", i))
		publishOf(t, js, event.Resolved, fmt.Sprint("loop-", i))
	}
	cfg := testConfig(rec.URL)
	start(t, server.Conn(), cfg)
	start(t, server.Conn(), cfg)
	ended, began := map[string]bool{}, map[string]int{}
	for len(ended) < 5 {
		d := receive(t, rec.got)
		e, err := event.Parse(d.body)
		if err != nil {
			t.Fatal(err)
		}
		loop := e.Data.LoopID
		switch {
		case e.Type == event.Resolved && began[loop] == 0, ended[loop]:
			t.Errorf("%s out of order", e.ID)
		case e.Type == event.Resolved:
			ended[loop] = true
		default:
			began[loop]++
		}
	}
	wantDrained(t, server)
	if began["loop-1"] != 4 || began["loop-0"] != 1 || len(rec.got) != 0 {
		t.Errorf("beginnings %v, %d more", began, len(rec.got))
	}
}

func TestAnEndpointThatIsGoneIsDisabledAndEnabledAgain(t *testing.T) {
	t.Parallel()
	server := natstest.Start(t)
	gone := make(chan struct{})
	rec := newReceiver(t, func(w http.ResponseWriter, _ *http.Request, _ delivered) {
		select {
		case <-gone:
		default:
			w.WriteHeader(http.StatusGone)
		}
	})
	js, nc := server.JetStream(), server.Conn()
	publish(t, js, "evt-1")
	r := start(t, server.Conn(), testConfig(rec.URL))
	receive(t, rec.got)
	awaitLog(t, r, "is disabled")
	publish(t, js, "evt-2")
	dead, err := js.OrderedConsumer(t.Context(), schemas.StreamDeadLetters, jetstream.OrderedConsumerConfig{})
	if err != nil {
		t.Fatal(err)
	}
	for _, id := range []string{"evt-1", "evt-2"} {
		msg, err := dead.Next(jetstream.FetchMaxWait(patience))
		if err != nil {
			t.Fatal(err)
		}
		var letter delivery.Record
		if err := json.Unmarshal(msg.Data(), &letter); err != nil || letter.ID != id || letter.Endpoint != "webhook" || len(letter.Events) != 1 || letter.Reason == "" {
			t.Errorf("dead letter %s, %v", msg.Data(), err)
		}
	}
	close(gone)
	body, err := json.Marshal(delivery.Request{Endpoint: "webhook"})
	if err != nil {
		t.Fatal(err)
	}
	if answer, err := nc.Request(schemas.SubjectEnable, body, patience); err != nil || bytes.Contains(answer.Data, []byte("error")) {
		t.Fatalf("enable: %v, %v", answer, err)
	}
	publish(t, js, "evt-3")
	if d := receive(t, rec.got); d.id() != "evt-3" {
		t.Errorf("got %s", d.id())
	}
}

func TestAnEndpointIsLeftAloneForAsLongAsItAsks(t *testing.T) {
	t.Parallel()
	server := natstest.Start(t)
	rec := newReceiver(t, func(w http.ResponseWriter, _ *http.Request, d delivered) {
		if d.attempt == 1 && d.id() == "evt-1" {
			w.Header().Set("Retry-After", "1")
			w.WriteHeader(http.StatusTooManyRequests)
		}
	})
	js := server.JetStream()
	publish(t, js, "evt-1")
	r := start(t, server.Conn(), testConfig(rec.URL))
	receive(t, rec.got)
	asked := time.Now()
	awaitLog(t, r, "does not accept messages")
	publish(t, js, "evt-2")
	for range 2 {
		receive(t, rec.got)
		if waited := time.Since(asked); waited < 900*time.Millisecond {
			t.Errorf("sent after %s", waited)
		}
	}
}

func TestASlowEndpointDelaysNoOther(t *testing.T) {
	t.Parallel()
	server, release := natstest.Start(t), make(chan struct{})
	slow := newReceiver(t, func(_ http.ResponseWriter, r *http.Request, _ delivered) {
		select {
		case <-release:
		case <-r.Context().Done():
		}
	})
	fast := newReceiver(t, nil)
	for i := range 40 {
		publish(t, server.JetStream(), fmt.Sprint("evt-", i))
	}
	cfg := testConfig(slow.URL)
	cfg.WebhookTo = []string{fast.URL}
	start(t, server.Conn(), cfg)
	receive(t, slow.got)
	for range 40 {
		receive(t, fast.got)
	}
	close(release)
	for range 39 {
		receive(t, slow.got)
	}
}

// Two notifiers form one group, wait once, and send one message.
func TestTwoNotifiersFormOneGroup(t *testing.T) {
	t.Parallel()
	server, rec := natstest.Start(t), newReceiver(t, nil)
	file := filepath.Join(t.TempDir(), "notify.yaml")
	text := fmt.Sprintf(`endpoints: [{name: ops, webhook: {url: %q}}]
routes: [{name: all, endpoints: [ops], group_by: [tenant], group_wait: 3s}]
`, rec.URL)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	cfg := testConfig("")
	cfg.WebhookSecret, cfg.Notify = "", file
	both := []*running{start(t, server.Conn(), cfg), start(t, server.Conn(), cfg)}
	for _, r := range both {
		r.waitReady(t)
	}
	js := server.JetStream()
	for i := range 10 {
		publishOf(t, js, event.Detected, fmt.Sprint("loop-", i))
	}
	d := receive(t, rec.got)
	var group struct {
		Events []event.Event `json:"events"`
	}
	if err := json.Unmarshal(d.body, &group); err != nil || len(group.Events) != 10 {
		t.Errorf("%d events in %s, %v", len(group.Events), d.body, err)
	}
	wantDrainedOf(t, server, "ops")
	for _, r := range both {
		r.stop()
	}
	if len(rec.got) > 0 {
		t.Errorf("a second message: %s", (<-rec.got).body)
	}
}
