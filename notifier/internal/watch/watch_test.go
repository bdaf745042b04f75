package watch

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/unloop/unloop/notifier/internal/board"
	"github.com/unloop/unloop/schemas"
	"github.com/unloop/unloop/schemas/kit/natskit"
	"github.com/unloop/unloop/schemas/kit/natstest"
	"github.com/unloop/unloop/schemas/kit/operator"
	"github.com/unloop/unloop/schemas/kit/seal"
)

// A stored message that looks like a heartbeat of a consumer does not stop the list of
// policies: what the operator pushes afterwards is shown.
func TestAMadeUpHeartbeatDoesNotFreezeTheBundle(t *testing.T) {
	t.Parallel()
	seed, public, err := seal.Generate()
	if err != nil {
		t.Fatal(err)
	}
	by, err := seal.NewSigner(seed)
	if err != nil {
		t.Fatal(err)
	}
	trust, err := seal.NewTrust(public)
	if err != nil {
		t.Fatal(err)
	}
	s := natstest.Start(t)
	b := board.New()
	w := New(s.Service(), natskit.Layout{}, trust, b, slog.New(slog.DiscardHandler))
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- w.Run(ctx) }()
	defer func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	}()
	push := func(text, want string) {
		t.Helper()
		if _, err := operator.Store(t.Context(), s.JetStream(), by, schemas.BucketPolicies, schemas.KeyBundle, []byte(text), 0); err != nil {
			t.Fatal(err)
		}
		limit, stop := context.WithTimeout(t.Context(), 30*time.Second)
		defer stop()
		for version, _, _ := b.Bundle.Get(); len(version) < 2 || version[:2] != want; version, _, _ = b.Bundle.Get() {
			_, news := b.Versions()
			if version, _, _ = b.Bundle.Get(); len(version) > 1 && version[:2] == want {
				return
			}
			select {
			case <-news:
			case <-limit.Done():
				t.Fatalf("bundle %q is shown, want %s", version, want)
			}
		}
	}
	push("bundle_version: 1\npolicies: [{id: p, spec: {prompt: {}}}]\n", "1-")
	heartbeat := &nats.Msg{Subject: "$KV." + schemas.BucketPolicies + "." + schemas.KeyBundle, Header: nats.Header{
		"Status": {"100"}, "Description": {"Idle Heartbeat"}, "Nats-Last-Consumer": {"999"}, "Nats-Last-Stream": {"999"},
	}}
	if _, err := s.JetStream().PublishMsg(t.Context(), heartbeat); err != nil {
		t.Fatal(err)
	}
	push("bundle_version: 2\npolicies: [{id: p, spec: {prompt: {}}}]\n", "2-")
}
