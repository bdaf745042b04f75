package notifier_test

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/unloop/unloop/schemas"
	"github.com/unloop/unloop/schemas/kit/natstest"
)

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
	wantDrained(t, server)
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
	wantDrained(t, server)
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
	wantDrained(t, server)
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
	if _, err := js.Consumer(t.Context(), schemas.StreamEvents, schemas.EndpointConsumer("webhook")); !errors.Is(err, jetstream.ErrConsumerNotFound) {
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

func TestShutdownLeavesNoConnectionOpen(t *testing.T) {
	t.Parallel()
	server, closed := natstest.Start(t), make(chan struct{}, 1)
	hook := httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	idle := make(chan struct{}, 1)
	hook.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		switch state {
		case http.StateIdle:
			idle <- struct{}{}
		case http.StateClosed:
			closed <- struct{}{}
		default:
		}
	}
	hook.Start()
	t.Cleanup(hook.Close)
	publish(t, server.JetStream(), "evt-1")
	r := start(t, server.Conn(), testConfig(hook.URL))
	receive(t, idle)
	r.stop()
	receive(t, closed)
}
