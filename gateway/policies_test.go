package gateway

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/unloop/unloop/schemas"
	"github.com/unloop/unloop/schemas/kit/natstest"
	"github.com/unloop/unloop/schemas/kit/service"
)

// patience bounds what a test waits for; nothing healthy comes near it.
const patience = 30 * time.Second

// bundleText is a bundle of that number, told apart by its one policy.
func bundleText(version int) string {
	return fmt.Sprintf("bundle_version: %d\npolicies:\n  - id: p%d\n    spec: {prompt: {tail_messages: %d}}\n", version, version, version)
}

func put(t *testing.T, file, text string) {
	t.Helper()
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// following is a gateway that runs against a server until the test ends.
func following(t *testing.T, s *natstest.Server, edits ...func(*Config)) *Gateway {
	t.Helper()
	return logging(t, s, slog.DiscardHandler, edits...)
}

// logging is following with a log.
func logging(t *testing.T, s *natstest.Server, log slog.Handler, edits ...func(*Config)) *Gateway {
	t.Helper()
	cfg := DefaultConfig()
	cfg.Listen, cfg.CheckTimeout = "127.0.0.1:0", patience
	for _, edit := range edits {
		edit(&cfg)
	}
	g, err := New(cfg, service.Deps{
		Log: slog.New(log), Metrics: prometheus.NewRegistry(), NATS: s.Service(), Layout: s.Layout(),
	})
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// run runs a gateway until the test ends and waits until it is ready.
func run(t *testing.T, g *Gateway) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- g.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	wait, stop := context.WithTimeout(t.Context(), patience)
	defer stop()
	must(t, g.Readiness().Wait(wait))
}

func bucket(t *testing.T, s *natstest.Server, name string) jetstream.KeyValue {
	t.Helper()
	kv, err := s.JetStream().KeyValue(t.Context(), name)
	must(t, err)
	return kv
}

// changes is a log handler that passes on how many changes and refusals of policies
// were logged.
type changes struct {
	slog.Handler
	logged chan string
}

func (c changes) Enabled(context.Context, slog.Level) bool { return true }

func (c changes) WithAttrs([]slog.Attr) slog.Handler { return c }

func (c changes) Handle(_ context.Context, r slog.Record) error {
	if r.Message == "policies in force" || strings.HasPrefix(r.Message, "policy bundle not used") {
		c.logged <- r.Message
	}
	return nil
}

func TestPushedBundleIsFollowedByEveryGateway(t *testing.T) {
	t.Parallel()
	s := natstest.Start(t)
	kv := bucket(t, s, schemas.BucketPolicies)
	push := func(text string) {
		_, err := kv.Put(t.Context(), schemas.KeyBundle, []byte(text))
		must(t, err)
	}
	push(bundleText(1))
	log := changes{slog.DiscardHandler, make(chan string, 100)}
	gateways := []*Gateway{logging(t, s, log), logging(t, s, log)}
	want := func(version, message string) {
		t.Helper()
		for range gateways {
			select {
			case got := <-log.logged:
				if !strings.HasPrefix(got, message) {
					t.Fatalf("logged %q, want %q", got, message)
				}
			case <-time.After(patience):
				t.Fatal("nothing was logged")
			}
		}
		for _, g := range gateways {
			if v := g.stages.Policies.Rules().Version(); !strings.HasPrefix(v, version) {
				t.Errorf("in force is %s, want %s", v, version)
			}
		}
	}
	standard := gateways[0].stages.Policies.Rules().Version()
	for _, g := range gateways {
		run(t, g)
	}
	want("1-", "policies in force")
	push(bundleText(2) + "something_new: 1\n") // as a newer version might write it
	want("2-", "policies in force")
	push("nonsense: [")
	want("2-", "policy bundle not used")
	must(t, kv.Delete(t.Context(), schemas.KeyBundle))
	want(standard, "policies in force")
}

func TestFileOutranksThePushedBundle(t *testing.T) {
	t.Parallel()
	s := natstest.Start(t)
	_, err := bucket(t, s, schemas.BucketPolicies).Put(t.Context(), schemas.KeyBundle, []byte(bundleText(7)))
	must(t, err)
	file := filepath.Join(t.TempDir(), "policies.yaml")
	put(t, file, bundleText(1))
	g := following(t, s, func(c *Config) { c.Policies = file })
	run(t, g) // ready once the pushed bundle has been seen
	if v := g.stages.Policies.Rules().Version(); !strings.HasPrefix(v, "1-") {
		t.Errorf("in force is %s, want the file's 1", v)
	}
}
