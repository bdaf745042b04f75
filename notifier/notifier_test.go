package notifier_test

import (
	"bytes"
	"encoding/base64"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

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
	wantDrained(t, server)
	wantResults(t, r, map[string]float64{"delivered": 1})
	if len(rec.got) != 0 {
		t.Error("delivered again")
	}
}

func TestEachEndpointGetsItsProjectsEventsAndNoneWaitsForAnother(t *testing.T) {
	t.Parallel()
	server := natstest.Start(t)
	all, own := newReceiver(t, nil), newReceiver(t, func(w http.ResponseWriter, _ *http.Request, d delivered) {
		if d.attempt < 3 {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	})
	cfg := testConfig(all.URL)
	file := filepath.Join(t.TempDir(), "secret")
	other := "whsec_" + base64.StdEncoding.EncodeToString(bytes.Repeat([]byte("k"), 32))
	if err := os.WriteFile(file, []byte(other+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	cfg.WebhookTo = []string{"project=theirs " + own.URL, "tenant=acme secret-file=" + file + " " + own.URL}
	publish(t, server.JetStream(), "evt-1")
	r := start(t, server.Conn(), cfg)
	var last delivered
	for range 3 {
		last = receive(t, own.got)
	}
	r.stop()
	verifier, err := standardwebhooks.NewWebhook(other)
	if err != nil {
		t.Fatal(err)
	}
	if err := verifier.Verify(last.body, last.header); err != nil || last.attempt != 3 || last.id() != "evt-1" {
		t.Errorf("attempt %d of %s: %v", last.attempt, last.id(), err)
	}
	receive(t, all.got)
	if len(all.got)+len(own.got) != 0 {
		t.Error("delivered again, or to another project")
	}
	wantDrained(t, server)
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
	wantDrained(t, server)
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
	wantDrained(t, server)
	wantResults(t, r, map[string]float64{"delivered": 1, "rejected": 1})
	if got := strings.Count(r.log.String(), "message_id=evt-1"); got != 1 {
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
	cfg.WebhookRetry = cfg.WebhookRetry[:2]
	r := start(t, server.Conn(), cfg)
	for range 3 {
		receive(t, rec.got)
	}
	r.stop()
	wantDrained(t, server)
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
	cfg.WebhookRetry = nil
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
	cfg.AllowCIDR, cfg.WebhookRetry = nil, nil
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
	wantDrained(t, server)
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
	awaitLog(t, r, "does not accept messages")
	door.open.Store(true)
	if id := receive(t, got); id != "evt-1" {
		t.Errorf("got %s", id)
	}
	r.stop()
	if results := r.results(t); results["delivered"] != 1 || results["retried"] == 0 {
		t.Errorf("got %v", results)
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
