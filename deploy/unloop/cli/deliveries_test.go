package cli

import (
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/unloop/unloop/deploy/unloop/system"
)

// An operator tests an endpoint, sees the attempts and sends a message again.
func TestDeliveriesAreTestedListedShownAndSentAgain(t *testing.T) {
	t.Parallel()
	var down atomic.Bool
	ids := make(chan string, 10)
	hook := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if down.Load() {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
		ids <- r.Header.Get("Webhook-Id")
	}))
	t.Cleanup(hook.Close)
	url := running(t, func(cfg *system.Config) {
		cfg.Notifier.Webhook, cfg.Notifier.AllowCIDR = hook.URL, []string{"127.0.0.0/8"}
	})
	if code, out, errOut := command(t, "deliveries", "--nats", url); code != 0 || !strings.Contains(out, "Nothing was delivered") {
		t.Errorf("deliveries: code %d, %s%s", code, out, errOut)
	}
	if code, out, errOut := command(t, "deliveries", "test", "webhook", "--nats", url); code != 0 || !strings.Contains(out, "Delivered test-") {
		t.Fatalf("test: code %d, %s%s", code, out, errOut)
	}
	id := <-ids
	if end := <-ids; end != id+"-end" {
		t.Errorf("after the test message came %s, want its end", end)
	}
	if code, out, errOut := command(t, "deliveries", "--status", "delivered", "--nats", url); code != 0 || !strings.Contains(out, id) {
		t.Errorf("list: code %d, %s%s", code, out, errOut)
	}
	down.Store(true)
	if code, _, errOut := command(t, "deliveries", "resend", id, "--nats", url); code != 1 || !strings.Contains(errOut, "Service Unavailable") {
		t.Errorf("resend to an endpoint that is down: code %d, %s", code, errOut)
	}
	if again := <-ids; again != id {
		t.Errorf("sent again as %s, want %s", again, id)
	}
	code, out, errOut := command(t, "deliveries", "show", id, "-e", "webhook", "--nats", url)
	if code != 0 || strings.Count(out, `"manual": true`) != 2 || !strings.Contains(out, "503") {
		t.Errorf("show: code %d, %s%s", code, out, errOut)
	}
	for want, args := range map[string][]string{
		"no endpoint has this name": {"deliveries", "test", "nobody"},
		"has no message nothing":    {"deliveries", "resend", "nothing"},
	} {
		if code, _, errOut := command(t, append(args, "--nats", url)...); code != 1 || !strings.Contains(errOut, want) {
			t.Errorf("%v: code %d, %s", args, code, errOut)
		}
	}
}

// running starts the whole system until the test ends, and returns its address for clients
// of NATS.
func running(t *testing.T, change func(*system.Config)) string {
	t.Helper()
	cfg := system.DefaultConfig()
	cfg.Embedded.Listen = system.FreePort
	change(&cfg)
	s, err := system.New(cfg, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
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
	return s.NATSURL()
}
