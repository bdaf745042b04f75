package notifier_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"io"
	"log/slog"
	"math"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/unloop/unloop/notifier"
	"github.com/unloop/unloop/schemas"
	"github.com/unloop/unloop/schemas/event"
	"github.com/unloop/unloop/schemas/kit/natskit"
	"github.com/unloop/unloop/schemas/kit/natstest"
	"github.com/unloop/unloop/schemas/kit/service"
)

// patience bounds waits that only a fault makes long. It is less than the time
// after which JetStream itself would send an event again.
const patience = 20 * time.Second

var (
	secretKey = bytes.Repeat([]byte{0xfb}, 32)
	secret    = notifier.Secret("whsec_" + base64.StdEncoding.EncodeToString(secretKey))
)

// testConfig delivers to a local server, and tries again at once.
func testConfig(target string) notifier.Config {
	cfg := notifier.DefaultConfig()
	cfg.Webhook, cfg.WebhookSecret = target, secret
	cfg.AllowCIDR = []string{"127.0.0.0/8"}
	cfg.WebhookSince, cfg.WebhookRetry = "all", slices.Repeat([]time.Duration{time.Millisecond}, 9)
	return cfg
}

// running is a notifier that runs until stop, or until the test ends.
type running struct {
	*notifier.Notifier
	reg *prometheus.Registry
	log *syncBuffer
	// cancel tells it to stop, and stop also waits until it has.
	cancel context.CancelFunc
	stop   func()
}

func start(t *testing.T, nc *nats.Conn, cfg notifier.Config) *running {
	t.Helper()
	r := &running{reg: prometheus.NewRegistry(), log: &syncBuffer{}}
	log := slog.New(slog.NewTextHandler(r.log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	conn, err := natskit.Connect(nc.ConnectedUrl(), "notifier", log)
	if err != nil {
		t.Fatalf("connect: %v", err)
	}
	t.Cleanup(conn.Close)
	n, err := notifier.New(cfg, service.Deps{Log: log, Metrics: r.reg, NATS: conn})
	if err != nil {
		t.Fatalf("new: %v", err)
	}
	n.SetMargin(time.Second)
	ctx, cancel := context.WithCancel(context.Background())
	r.Notifier, r.cancel = n, cancel
	ended := make(chan error, 1)
	go func() { ended <- n.Run(ctx) }()
	r.stop = sync.OnceFunc(func() {
		cancel()
		if err := receive(t, ended); err != nil {
			t.Errorf("run: %v", err)
		}
	})
	t.Cleanup(r.stop)
	return r
}

func (r *running) waitReady(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if err := r.Readiness().Wait(ctx); err != nil {
		t.Fatalf("not ready: %v", err)
	}
}

// results returns what was counted by result, without zeros. It is complete
// once the notifier has stopped.
func (r *running) results(t *testing.T) map[string]float64 {
	t.Helper()
	families, err := r.reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	counts := map[string]float64{}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			if f.GetName() == "unloop_notifier_deliveries_total" && m.GetCounter().GetValue() > 0 {
				for _, l := range m.GetLabel() {
					if l.GetName() == "result" {
						counts[l.GetValue()] += m.GetCounter().GetValue()
					}
				}
			}
		}
	}
	return counts
}

// receiver is a webhook's other end. What arrives goes to got.
type receiver struct {
	*httptest.Server
	got chan delivered
}

type delivered struct {
	header http.Header
	body   []byte
	// attempt counts requests with this id, from 1.
	attempt int
}

func (d delivered) id() string { return d.header.Get("Webhook-Id") }

// newReceiver answers each request with what answer says; nil answers 200.
func newReceiver(t *testing.T, answer func(w http.ResponseWriter, r *http.Request, d delivered)) *receiver {
	t.Helper()
	var mu sync.Mutex
	attempts := map[string]int{}
	rec := &receiver{got: make(chan delivered, 1000)}
	rec.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		d := delivered{header: r.Header, body: body}
		mu.Lock()
		attempts[d.id()]++
		d.attempt = attempts[d.id()]
		mu.Unlock()
		rec.got <- d
		if answer != nil {
			answer(w, r, d)
		}
	}))
	t.Cleanup(rec.Close)
	return rec
}

func receive[T any](t *testing.T, from <-chan T) T {
	t.Helper()
	select {
	case v := <-from:
		return v
	case <-time.After(patience):
		t.Fatal("nothing arrived")
		panic("unreachable")
	}
}

// publish puts an event with the given id on the stream, and returns its body.
func publish(t *testing.T, js jetstream.JetStream, id string) []byte {
	t.Helper()
	e := event.New(event.Detected, id, time.Now())
	e.TenantID, e.Data.LoopID, e.Data.Policy, e.Data.Model = "acme", "loop-"+id, "agent-tools", "s3cretmodel"
	e.Data.FirstSeen, e.Data.LastSeen, e.Data.Findings = e.Timestamp, e.Timestamp, []event.Finding{}
	body, err := json.Marshal(e)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := js.PublishMsg(t.Context(), &nats.Msg{Subject: e.Subject(), Header: e.Headers(), Data: body}); err != nil {
		t.Fatalf("publish %s: %v", id, err)
	}
	return body
}

// wantDrained fails unless every event was taken in and nothing is owed.
func wantDrained(t *testing.T, s *natstest.Server) {
	t.Helper()
	wantDrainedOf(t, s, "webhook")
}

// wantDrainedOf is wantDrained for an endpoint of that name.
func wantDrainedOf(t *testing.T, s *natstest.Server, endpoint string) {
	t.Helper()
	js := s.JetStream()
	deadline, least := time.After(patience), uint64(math.MaxUint64)
	for {
		consumer, err := js.Consumer(t.Context(), schemas.StreamEvents, schemas.EndpointConsumer(endpoint))
		if err != nil {
			t.Fatal(err)
		}
		info, owed := consumer.CachedInfo(), owed(t, js)
		if info.NumAckPending == 0 && info.NumPending == 0 && owed == 0 {
			return
		}
		if left := info.NumPending + uint64(info.NumAckPending+owed); left < least { // it goes on
			deadline, least = time.After(patience), left
		}
		select {
		case <-time.After(5 * time.Millisecond):
		case <-deadline:
			t.Fatalf("%d unsettled, %d unread, %d owed", info.NumAckPending, info.NumPending, owed)
		}
	}
}

// owed counts the records that owe a message.
func owed(t *testing.T, js jetstream.JetStream) (n int) {
	t.Helper()
	kv, err := js.KeyValue(t.Context(), schemas.BucketNotifications)
	if err != nil {
		t.Fatal(err)
	}
	watch, err := kv.Watch(t.Context(), schemas.OwedPrefix+">", jetstream.IgnoreDeletes())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = watch.Stop() }()
	for entry := range watch.Updates() {
		if entry == nil {
			break
		}
		if bytes.Contains(entry.Value(), []byte(`"batch"`)) {
			n++
		}
	}
	return n
}

// syncBuffer is a buffer that several goroutines may write to.
type syncBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *syncBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *syncBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}
