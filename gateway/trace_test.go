package gateway_test

import (
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/unloop/unloop/gateway"
	"github.com/unloop/unloop/schemas/kit/natstest"
	"github.com/unloop/unloop/schemas/kit/service"
	"github.com/unloop/unloop/schemas/kit/tracing"
)

// spansOf returns the spans of requests to a gateway that has no detector and whose
// upstream is away: the name, the error and some attributes of each.
func spansOf(t *testing.T, bundle string, paths ...string) []string {
	t.Helper()
	spans := tracetest.NewInMemoryExporter()
	provider := tracing.New(t.Context(), spans, "gateway", "test")
	t.Cleanup(provider.Close)
	cfg := gateway.DefaultConfig()
	cfg.Listen, cfg.CheckTimeout, cfg.Policies = "127.0.0.1:0", 5*time.Second, filepath.Join(t.TempDir(), "policies.yaml")
	cfg.Upstream = map[string]string{"openai": "http://127.0.0.1:1"}
	if err := os.WriteFile(cfg.Policies, []byte(bundle), 0o600); err != nil {
		t.Fatal(err)
	}
	g, err := gateway.New(cfg, service.Deps{
		Log: slog.New(slog.DiscardHandler), Metrics: prometheus.NewRegistry(), NATS: natstest.Start(t).Service(), Traces: provider.Tracer("gateway"),
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- g.Run(ctx) }()
	if err := g.Readiness().Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, path := range paths {
		r := httptest.NewRequest(http.MethodPost, path, strings.NewReader(`{"model":"m","messages":[{"role":"user","content":"hello"}]}`))
		r.Host = g.Addr()
		r.Header.Set("Content-Type", "application/json")
		g.ServeHTTP(httptest.NewRecorder(), r)
	}
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if err := provider.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, s := range spans.GetSpans() {
		line := s.Name
		if s.Status.Code == codes.Error {
			line += " failed " + s.Status.Description
		}
		for _, a := range s.Attributes {
			switch a.Key {
			case "unloop.outcome", "unloop.degraded", "http.response.status_code":
				line += " " + a.Value.String()
			}
		}
		out = append(out, line)
	}
	return out
}

func TestSpansSayWhyARequestWasNotCheckedOrAnswered(t *testing.T) {
	t.Parallel()
	const failing = "bundle_version: 1\npolicies:\n  - {id: p, spec: {failure_mode: closed, prompt: {}}}\n"
	for name, c := range map[string]struct {
		bundle, path string
		want         []string
	}{
		"open": {
			strings.Replace(failing, "closed", "open", 1), "/v1/chat/completions",
			[]string{"check failed no-detector no-detector", "chat m failed no answer", "POST openai-chat failed  degraded no-detector 502"},
		},
		"closed":       {failing, "/v1/chat/completions", []string{"check failed no-detector no-detector", "POST openai-chat failed  fail-closed no-detector 503"}},
		"no such path": {failing, "/nowhere", []string{"POST 404"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(c.want, spansOf(t, c.bundle, c.path)); diff != "" {
				t.Errorf("spans (-want +got):\n%s", diff)
			}
		})
	}
}
