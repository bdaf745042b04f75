package cli

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/unloop/unloop/schemas"
	"github.com/unloop/unloop/schemas/delivery"
	"github.com/unloop/unloop/schemas/kit/natstest"
)

func TestEndpointsAreListedAndEnabled(t *testing.T) {
	t.Parallel()
	server := natstest.Start(t)
	js, url := server.JetStream(), server.URL()
	if code, out, errOut := command(t, "endpoints", "--nats", url); code != 0 || !strings.Contains(out, "No notifier has endpoints") {
		t.Fatalf("endpoints: code %d, %s%s", code, out, errOut)
	}
	for _, name := range []string{"hooks", "ops"} {
		_, err := js.CreateConsumer(t.Context(), schemas.StreamEvents, jetstream.ConsumerConfig{Durable: schemas.EndpointConsumer(name), AckPolicy: jetstream.AckExplicitPolicy})
		if err != nil {
			t.Fatal(err)
		}
	}
	state, err := json.Marshal(delivery.Endpoint{Disabled: time.Now(), Reason: "the endpoint wants no messages any more (status 410)"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := js.Publish(t.Context(), "$KV."+schemas.BucketNotifications+"."+schemas.EndpointKey("ops"), state); err != nil {
		t.Fatal(err)
	}
	code, out, errOut := command(t, "endpoints", "--json", "--nats", url)
	lines := strings.Split(strings.TrimSpace(out), "\n")
	if code != 0 || len(lines) != 2 || !strings.Contains(lines[0], `"hooks"`) || !strings.Contains(lines[1], "410") || strings.Contains(lines[0], "disabled") {
		t.Errorf("endpoints --json: code %d, %s%s", code, out, errOut)
	}
	if code, out, _ = command(t, "endpoints", "--nats", url); code != 0 || !strings.Contains(out, "disabled") || !strings.Contains(out, "active") {
		t.Errorf("endpoints: code %d\n%s", code, out)
	}
	if code, _, errOut = command(t, "endpoints", "enable", "ops", "--nats", url); code != 1 || !strings.Contains(errOut, "no notifier with endpoints is running") {
		t.Errorf("enable without a notifier: code %d, %s", code, errOut)
	}
	respond(t, server.Conn())
	if code, _, errOut = command(t, "endpoints", "enable", "nobody", "--nats", url); code != 1 || !strings.Contains(errOut, "enable nobody: no such endpoint") {
		t.Errorf("enable of an unknown endpoint: code %d, %s", code, errOut)
	}
	if code, out, errOut = command(t, "endpoints", "enable", "ops", "--as", "me", "--nats", url); code != 0 || !strings.Contains(out, "Enabled ops") {
		t.Errorf("enable: code %d, %s%s", code, out, errOut)
	}
	if got := audited(t, url); len(got) != 1 || got[0] != "enable-endpoint ops by me" {
		t.Errorf("audited %q", got)
	}
}

// respond answers requests as a notifier with the endpoint ops does.
func respond(t *testing.T, nc *nats.Conn) {
	t.Helper()
	sub, err := nc.Subscribe(schemas.SubjectEnable, func(msg *nats.Msg) {
		var req delivery.Request
		reply := delivery.Reply{}
		if err := json.Unmarshal(msg.Data, &req); err != nil || req.Endpoint != "ops" {
			reply.Error = "no such endpoint"
		}
		body, err := json.Marshal(reply)
		if err == nil {
			err = msg.Respond(body)
		}
		if err != nil {
			t.Error(err)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = sub.Unsubscribe() })
	if err := nc.Flush(); err != nil {
		t.Fatal(err)
	}
}
