package e2e

import (
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"github.com/unloop/unloop/deploy/unloop/system"
	"github.com/unloop/unloop/notifier"
	"github.com/unloop/unloop/schemas/event"
)

func TestLoopIsDeliveredToASignedWebhookOnce(t *testing.T) {
	t.Parallel()
	const secret = "whsec_MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=" // 0123… twice, in base64
	verifier, err := standardwebhooks.NewWebhook(secret)
	if err != nil {
		t.Fatal(err)
	}
	events := make(chan event.Event, 16)
	hook := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if err := verifier.Verify(body, r.Header); err != nil {
			t.Errorf("signature: %v", err)
		}
		e, err := event.Parse(body)
		if err != nil {
			t.Errorf("body: %v", err)
		}
		events <- e
	}))
	t.Cleanup(hook.Close)
	url := start(t, echo(t), func(cfg *system.Config) {
		cfg.Notifier.Webhook, cfg.Notifier.WebhookSecret = hook.URL, notifier.Secret(secret)
		cfg.Notifier.AllowCIDR = []string{"127.0.0.0/8"}
	}).URL()
	statuses(t, url, prompt("one loop"), 9)
	statuses(t, url, prompt("another loop"), 9)
	seen := map[string]int{}
	for range 2 {
		e := <-events
		seen[e.Data.LoopID]++
		if e.Type != event.Detected || e.Data.Detector != "prompt" || e.Data.HitCount != 6 {
			t.Errorf("event %+v", e)
		}
	}
	if len(seen) != 2 || len(events) != 0 {
		t.Errorf("two loops were delivered as %v, and %d more", seen, len(events))
	}
}

func TestThrottledRequestIsForwardedLate(t *testing.T) {
	t.Parallel()
	url := start(t, echo(t), policies(t, identical(5, "throttle"))).URL()
	statuses(t, url, prompt("again"), 4)
	a := send(t, url, prompt("again"))
	if a.status != http.StatusOK || a.header.Get("X-Loop-Action") != "throttle" || a.header.Get("X-Loop-Delay-Ms") != "500" {
		t.Errorf("5th: status %d, action %q, delay %q; want 200, throttle, 500", a.status, a.header.Get("X-Loop-Action"), a.header.Get("X-Loop-Delay-Ms"))
	}
}
