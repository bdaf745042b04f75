package gateway

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/unloop/unloop/schemas"
	"github.com/unloop/unloop/schemas/kit/natskit"
	"github.com/unloop/unloop/schemas/kit/natstest"
	"github.com/unloop/unloop/schemas/kit/service"
)

// A gateway that has waited long enough for the streams serves, and is not ready until it has
// read what gateways share.
func TestAGatewayIsNotReadyBeforeItHasReadPoliciesAndOverrides(t *testing.T) {
	t.Parallel()
	s := natstest.StartBare(t)
	cfg := DefaultConfig()
	cfg.Listen, cfg.StartGrace = "127.0.0.1:0", time.Millisecond
	url, _ := upstream(t)
	at(url)(&cfg)
	g, err := New(cfg, service.Deps{
		Log: slog.New(slog.DiscardHandler), Metrics: prometheus.NewRegistry(), NATS: s.Service(),
		Layout: natskit.Layout{Replicas: 3}, // which a single server can't make
	})
	must(t, err)
	run(t, g)
	if res, _ := post(t, g, "/v1/chat/completions", nil); res.StatusCode != http.StatusOK || res.Header.Get("X-Loop-Degraded") == "" {
		t.Errorf("without streams: %+v; want it forwarded without a check", res)
	}
	if err := g.Readiness().Err(); !errors.Is(err, service.ErrStarting) {
		t.Errorf("without streams: %v; want %v", err, service.ErrStarting)
	}
	must(t, s.Service().EnsureStreams(t.Context(), s.Layout()))
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for tick := time.NewTicker(5 * time.Millisecond); g.Readiness().Err() != nil; <-tick.C {
		must(t, ctx.Err())
	}
}

// A gateway that starts together with its detectors waits a while for the first of them.
func TestAGatewayIsNotReadyBeforeItHeardADetector(t *testing.T) {
	t.Parallel()
	s := natstest.Start(t)
	g := following(t, s, func(c *Config) { c.StartGrace = patience })
	run(t, g)
	if err := g.Readiness().Err(); !errors.Is(err, service.ErrStarting) {
		t.Errorf("without a detector: %v; want %v", err, service.ErrStarting)
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	nc := s.Conn()
	for tick := time.NewTicker(5 * time.Millisecond); g.Readiness().Err() != nil; <-tick.C {
		must(t, nc.Publish(schemas.SubjectBeat, []byte("d1")))
		must(t, ctx.Err())
	}
}
