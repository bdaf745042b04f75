package notifier_test

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/nats.go/jetstream"
	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"github.com/unloop/unloop/schemas"
	"github.com/unloop/unloop/schemas/kit/natstest"
)

func wantResults(t *testing.T, r *running, want map[string]float64) {
	t.Helper()
	if diff := cmp.Diff(want, r.results(t)); diff != "" {
		t.Error(diff)
	}
}

func TestAnEventIsDeliveredOnceAndSigned(t *testing.T) {
	t.Parallel()
	server, rec := natstest.Start(t), newReceiver(t, nil)
	body := publish(t, server.JetStream(), "evt-1")
	r := start(t, server.Conn(), testConfig(rec.URL))
	d := receive(t, rec.got)
	r.stop()
	if d.id() != "evt-1" || !bytes.Equal(d.body, body) {
		t.Errorf("got %s with %s, want evt-1 with %s", d.id(), d.body, body)
	}
	verifier, err := standardwebhooks.NewWebhook(string(secret))
	if err != nil {
		t.Fatal(err)
	}
	if err := verifier.Verify(d.body, d.header); err != nil {
		t.Errorf("verify: %v", err)
	}
	wantDrained(t, server, 1)
	wantResults(t, r, map[string]float64{"delivered": 1})
	if len(rec.got) != 0 {
		t.Error("delivered again")
	}
}

func TestAFailedDeliveryIsTriedAgainUnderTheSameID(t *testing.T) {
	t.Parallel()
	server := natstest.Start(t)
	rec := newReceiver(t, func(w http.ResponseWriter, _ *http.Request, d delivered) {
		if d.attempt < 3 {
			w.WriteHeader(http.StatusInternalServerError)
		}
	})
	publish(t, server.JetStream(), "evt-1")
	r := start(t, server.Conn(), testConfig(rec.URL))
	for range 3 {
		if d := receive(t, rec.got); d.id() != "evt-1" {
			t.Errorf("id is %s", d.id())
		}
	}
	r.stop()
	wantDrained(t, server, 3)
	wantResults(t, r, map[string]float64{"delivered": 1, "retried": 2})
}

func TestARefusedEventIsDroppedAndTheNextOneDelivered(t *testing.T) {
	t.Parallel()
	server := natstest.Start(t)
	rec := newReceiver(t, func(w http.ResponseWriter, _ *http.Request, d delivered) {
		if d.id() == "evt-1" {
			w.WriteHeader(http.StatusBadRequest)
		}
	})
	publish(t, server.JetStream(), "evt-1")
	publish(t, server.JetStream(), "evt-2")
	r := start(t, server.Conn(), testConfig(rec.URL))
	receive(t, rec.got)
	receive(t, rec.got)
	r.stop()
	wantDrained(t, server, 2)
	wantResults(t, r, map[string]float64{"delivered": 1, "rejected": 1})
	if got := strings.Count(r.log.String(), "event_id=evt-1"); got != 1 {
		t.Errorf("%d log lines for the refused event, want 1:\n%s", got, r.log)
	}
}

func TestAnEventIsGivenUpAfterSoManyAttempts(t *testing.T) {
	t.Parallel()
	server := natstest.Start(t)
	rec := newReceiver(t, func(w http.ResponseWriter, _ *http.Request, _ delivered) {
		w.WriteHeader(http.StatusServiceUnavailable)
	})
	publish(t, server.JetStream(), "evt-1")
	cfg := testConfig(rec.URL)
	cfg.WebhookMaxAttempts = 3
	r := start(t, server.Conn(), cfg)
	for range 3 {
		receive(t, rec.got)
	}
	r.stop()
	wantDrained(t, server, 3)
	wantResults(t, r, map[string]float64{"retried": 2, "expired": 1})
}

func TestARedirectIsNotFollowed(t *testing.T) {
	t.Parallel()
	server, elsewhere := natstest.Start(t), newReceiver(t, nil)
	rec := newReceiver(t, func(w http.ResponseWriter, r *http.Request, _ delivered) {
		http.Redirect(w, r, elsewhere.URL, http.StatusPermanentRedirect)
	})
	publish(t, server.JetStream(), "evt-1")
	cfg := testConfig(rec.URL)
	cfg.WebhookMaxAttempts = 1
	r := start(t, server.Conn(), cfg)
	receive(t, rec.got)
	r.stop()
	wantResults(t, r, map[string]float64{"expired": 1})
	if len(elsewhere.got) != 0 {
		t.Error("the redirect was followed")
	}
}

func TestANameThatLeadsToAPrivateAddressIsNotDialled(t *testing.T) {
	t.Parallel()
	server, rec := natstest.Start(t), newReceiver(t, nil)
	publish(t, server.JetStream(), "evt-1")
	// Spelt like this, only the resolver knows that it is loopback.
	cfg := testConfig(strings.Replace(rec.URL, "127.0.0.1", "LOCALHOST", 1))
	cfg.AllowCIDR, cfg.WebhookMaxAttempts = nil, 1
	r := start(t, server.Conn(), cfg)
	awaitLog(t, r, "--allow-cidr")
	r.stop()
	wantResults(t, r, map[string]float64{"expired": 1})
	if len(rec.got) != 0 {
		t.Error("the private address was dialled")
	}
}

// awaitLog waits until the log holds a text.
func awaitLog(t *testing.T, r *running, text string) {
	t.Helper()
	deadline := time.After(patience)
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for !strings.Contains(r.log.String(), text) {
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("no %q in the log:\n%s", text, r.log)
		}
	}
}

func TestTwoNotifiersShareTheEvents(t *testing.T) {
	t.Parallel()
	server := natstest.Start(t)
	const events = 40
	for i := range events {
		publish(t, server.JetStream(), fmt.Sprint("evt-", i))
	}
	// Each endpoint holds its first event until the other has one as well.
	both := make(chan struct{})
	var reached atomic.Int64
	meet := func() func(http.ResponseWriter, *http.Request, delivered) {
		once := sync.OnceFunc(func() {
			if reached.Add(1) == 2 {
				close(both)
			}
		})
		return func(_ http.ResponseWriter, r *http.Request, _ delivered) {
			once()
			select {
			case <-both:
			case <-r.Context().Done():
			}
		}
	}
	recs := []*receiver{newReceiver(t, meet()), newReceiver(t, meet())}
	var all []*running
	for _, rec := range recs {
		cfg := testConfig(rec.URL)
		cfg.WebhookConcurrency = 1
		all = append(all, start(t, server.Conn(), cfg))
	}
	seen := map[string]int{}
	for range events {
		select {
		case d := <-recs[0].got:
			seen[d.id()]++
		case d := <-recs[1].got:
			seen[d.id()]++
		case <-time.After(patience):
			t.Fatalf("only %d events arrived", len(seen))
		}
	}
	total := 0.0
	for _, r := range all {
		r.stop()
		total += r.results(t)["delivered"]
	}
	if len(seen) != events || total != events {
		t.Errorf("%d different events in %v deliveries, want %d in as many", len(seen), total, events)
	}
	wantDrained(t, server, events)
}

func TestARestartGoesOnWhereItStopped(t *testing.T) {
	t.Parallel()
	server, rec := natstest.Start(t), newReceiver(t, nil)
	js := server.JetStream()
	for round := range 3 {
		want := map[string]bool{}
		for i := range 2 {
			id := fmt.Sprintf("evt-%d-%d", round, i)
			publish(t, js, id)
			want[id] = true
		}
		r := start(t, server.Conn(), testConfig(rec.URL))
		for range 2 {
			if d := receive(t, rec.got); !want[d.id()] {
				t.Errorf("round %d: got %s", round, d.id())
			}
		}
		r.stop()
	}
	wantDrained(t, server, 6)
}

func TestAMessageThatIsNoEventIsDroppedAndBlocksNothing(t *testing.T) {
	t.Parallel()
	server, rec := natstest.Start(t), newReceiver(t, nil)
	js := server.JetStream()
	for _, poison := range []string{"", "s3cret", `{"type":"loop.detected"}`, `[]`, `{"id":"x"`} {
		if _, err := js.Publish(t.Context(), "loop.detected._._", []byte(poison)); err != nil {
			t.Fatal(err)
		}
	}
	publish(t, js, "evt-1")
	cfg := testConfig(rec.URL)
	cfg.WebhookConcurrency = 1
	r := start(t, server.Conn(), cfg)
	if d := receive(t, rec.got); d.id() != "evt-1" {
		t.Errorf("got %s", d.id())
	}
	r.stop()
	wantDrained(t, server, 6)
	wantResults(t, r, map[string]float64{"invalid": 5, "delivered": 1})
	if strings.Contains(r.log.String(), "s3cret") {
		t.Errorf("the log quotes a body:\n%s", r.log)
	}
}

// gate is a listener that hangs up on everyone while it is shut.
type gate struct {
	net.Listener
	open atomic.Bool
}

func (g *gate) Accept() (net.Conn, error) {
	for {
		conn, err := g.Listener.Accept()
		if err != nil || g.open.Load() {
			return conn, err
		}
		if err := conn.Close(); err != nil {
			return nil, err
		}
	}
}

func TestAWebhookThatIsAwayAtFirstGetsItsEventsLater(t *testing.T) {
	t.Parallel()
	server, got := natstest.Start(t), make(chan string, 10)
	away := httptest.NewUnstartedServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		got <- r.Header.Get("Webhook-Id")
	}))
	door := &gate{Listener: away.Listener}
	away.Listener = door
	away.Start()
	t.Cleanup(away.Close)
	publish(t, server.JetStream(), "evt-1")
	r := start(t, server.Conn(), testConfig(away.URL))
	awaitLog(t, r, "does not take events")
	door.open.Store(true)
	if id := receive(t, got); id != "evt-1" {
		t.Errorf("got %s", id)
	}
	r.stop()
	if results := r.results(t); results["delivered"] != 1 || results["retried"] == 0 {
		t.Errorf("got %v", results)
	}
}

func TestShutdownLetsDeliveriesFinish(t *testing.T) {
	t.Parallel()
	server, release := natstest.Start(t), make(chan struct{})
	rec := newReceiver(t, func(_ http.ResponseWriter, r *http.Request, _ delivered) {
		select {
		case <-release:
		case <-r.Context().Done():
		}
	})
	publish(t, server.JetStream(), "evt-1")
	cfg := testConfig(rec.URL)
	cfg.WebhookGrace = time.Hour
	r := start(t, server.Conn(), cfg)
	receive(t, rec.got)
	r.cancel()
	close(release)
	r.stop()
	wantDrained(t, server, 1)
	wantResults(t, r, map[string]float64{"delivered": 1})
}

func TestShutdownBreaksOffADeadWebhookAndLeavesItsEventToOthers(t *testing.T) {
	t.Parallel()
	server := natstest.Start(t)
	dead := newReceiver(t, func(_ http.ResponseWriter, r *http.Request, _ delivered) { <-r.Context().Done() })
	publish(t, server.JetStream(), "evt-1")
	cfg := testConfig(dead.URL)
	cfg.WebhookTimeout, cfg.WebhookGrace = time.Minute, 0
	first := start(t, server.Conn(), cfg)
	receive(t, dead.got)
	first.stop()
	wantResults(t, first, map[string]float64{"interrupted": 1})
	alive := newReceiver(t, nil)
	start(t, server.Conn(), testConfig(alive.URL))
	if d := receive(t, alive.got); d.id() != "evt-1" {
		t.Errorf("got %s", d.id())
	}
}

func TestWithoutAWebhookNothingIsConsumed(t *testing.T) {
	t.Parallel()
	server := natstest.Start(t)
	js := server.JetStream()
	publish(t, js, "evt-1")
	cfg := testConfig("")
	cfg.WebhookSecret = ""
	r := start(t, server.Conn(), cfg)
	r.waitReady(t)
	r.stop()
	if _, err := js.Consumer(t.Context(), schemas.StreamEvents, schemas.DurableNotifier); !errors.Is(err, jetstream.ErrConsumerNotFound) {
		t.Errorf("consumer: got %v, want none", err)
	}
	stream, err := js.Stream(t.Context(), schemas.StreamEvents)
	if err != nil {
		t.Fatal(err)
	}
	if got := stream.CachedInfo().State.Msgs; got != 1 {
		t.Errorf("%d events in the stream, want 1", got)
	}
}

func TestDeliveryLeavesEventsToOtherSubscribers(t *testing.T) {
	t.Parallel()
	server, rec := natstest.Start(t), newReceiver(t, nil)
	nc := server.Conn()
	others, err := nc.SubscribeSync("loop.detected.>")
	if err != nil {
		t.Fatal(err)
	}
	if err := nc.Flush(); err != nil {
		t.Fatal(err)
	}
	js := server.JetStream()
	publish(t, js, "evt-1")
	r := start(t, server.Conn(), testConfig(rec.URL))
	receive(t, rec.got)
	r.stop()
	if msg, err := others.NextMsg(patience); err != nil || msg.Subject != "loop.detected.acme.agent-tools" {
		t.Errorf("got %v, %v", msg, err)
	}
	stream, err := js.Stream(t.Context(), schemas.StreamEvents)
	if err != nil {
		t.Fatal(err)
	}
	if got := stream.CachedInfo().State.Msgs; got != 1 {
		t.Errorf("%d events in the stream, want 1", got)
	}
}

func TestSecretsAreNotLogged(t *testing.T) {
	t.Parallel()
	server := natstest.Start(t)
	rec := newReceiver(t, func(w http.ResponseWriter, _ *http.Request, d delivered) {
		switch {
		case d.id() == "evt-1":
			w.WriteHeader(http.StatusForbidden)
		case d.attempt == 1:
			w.WriteHeader(http.StatusBadGateway)
		}
	})
	publish(t, server.JetStream(), "evt-1")
	publish(t, server.JetStream(), "evt-2")
	target := strings.Replace(rec.URL, "http://", "http://s3cretuser:s3cretpass@", 1) + "/s3cretpath?key=s3cretkey"
	r := start(t, server.Conn(), testConfig(target))
	for range 3 {
		receive(t, rec.got)
	}
	r.stop()
	logged := r.log.String()
	if !strings.Contains(logged, "evt-1") {
		t.Errorf("the refused event is not logged:\n%s", logged)
	}
	for _, hidden := range []string{"s3cret", strings.TrimPrefix(string(secret), "whsec_")} {
		if strings.Contains(logged, hidden) {
			t.Errorf("the log shows %s:\n%s", hidden, logged)
		}
	}
}
