package gateway

import (
	"context"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/unloop/unloop/gateway/internal/ask/ask"
	"github.com/unloop/unloop/gateway/internal/ask/checker"
	"github.com/unloop/unloop/gateway/internal/decide/evidence"
	"github.com/unloop/unloop/gateway/internal/edge/wait"
	"github.com/unloop/unloop/gateway/internal/rules/bundle"
	"github.com/unloop/unloop/gateway/internal/rules/policystore"
	"github.com/unloop/unloop/gateway/internal/wire/provider/plain"
	"github.com/unloop/unloop/gateway/internal/wire/request"
	"github.com/unloop/unloop/gateway/internal/wire/route"
	"github.com/unloop/unloop/schemas/checkpb"
	"github.com/unloop/unloop/schemas/kit/natstest"
)

// delaying is a gateway as far as a delay needs it.
func delaying(limit int) *Gateway {
	g := withoutCluster(prometheus.NewRegistry())
	g.waiting = wait.New(limit, prometheus.NewRegistry())
	return g
}

// throttled is a request that the detectors want to be delayed.
func throttled(ctx context.Context, delay time.Duration) *exchange {
	r := httptest.NewRequest(http.MethodPost, "/v1/chat/completions", nil).WithContext(ctx)
	req := request.New(r, route.Target{Format: plain.Format})
	return &exchange{
		http: r, req: req, rules: &policystore.Rules{Set: &bundle.Set{}}, evidence: evidence.Evidence{Check: &checkpb.Check{}},
		answer: ask.Answer{Decision: &checkpb.Decision{Findings: []*checkpb.Finding{{
			Policy: "p", Detector: "request", Fingerprint: []byte("f"), Action: checkpb.Action_ACTION_THROTTLE,
			DelayMs: uint32(delay.Milliseconds()), HitCount: 5, WindowSeconds: 60,
		}}}},
	}
}

// delay takes a throttled request through the wait, and reports whether it is forwarded.
func (g *Gateway) delay(w http.ResponseWriter, e *exchange) bool {
	out, err := g.wait(e.http.Context(), g.decide(e))
	switch {
	case err != nil:
		g.abandon(w, g.openAccount(e))
	case !out.Forwards():
		g.respond(w, g.openAccount(e), out)
	}
	return err == nil && out.Forwards()
}

func TestThrottledRequestIsForwardedAfterItsDelay(t *testing.T) {
	t.Parallel()
	for _, delay := range []time.Duration{500 * time.Millisecond, time.Second, 30 * time.Second} {
		synctest.Test(t, func(t *testing.T) {
			g, before := delaying(1), time.Now()
			req := throttled(t.Context(), delay)
			w := httptest.NewRecorder()
			if !g.delay(w, req) {
				t.Fatal("not forwarded")
			}
			if waited := time.Since(before); waited != delay {
				t.Errorf("waited %s, want %s", waited, delay)
			}
			if out := g.decide(req); out.Headers != nil {
				out.Headers.Put(w.Header())
			}
			if w.Header().Get("X-Loop-Delay-Ms") == "" {
				t.Error("X-Loop-Delay-Ms is not set")
			}
		})
	}
}

func TestDelayedRequestWhoseClientLeavesIsDroppedAtOnce(t *testing.T) {
	t.Parallel()
	nc := natstest.StartBare(t).Service() // it must not live in the bubble
	detectors := checker.New(nc, time.Second, time.Now, prometheus.NewRegistry())
	synctest.Test(t, func(t *testing.T) {
		g, before := delaying(1), time.Now()
		g.checker = detectors
		ctx, leave := context.WithTimeout(t.Context(), time.Second)
		defer leave()
		if g.delay(httptest.NewRecorder(), throttled(ctx, 30*time.Second)) {
			t.Error("forwarded")
		}
		if waited := time.Since(before); waited != time.Second {
			t.Errorf("dropped after %s, want as soon as the client left", waited)
		}
	})
}

func TestDelayedRequestsOfOneLoopAreBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const limit = 3
		g := delaying(limit)
		var wg sync.WaitGroup
		for range limit {
			wg.Go(func() { g.delay(httptest.NewRecorder(), throttled(t.Context(), 10*time.Second)) })
		}
		synctest.Wait()
		w := httptest.NewRecorder()
		if before := time.Now(); g.delay(w, throttled(t.Context(), 10*time.Second)) || time.Since(before) != 0 {
			t.Error("one more than the limit was not rejected at once")
		}
		if w.Code != http.StatusTooManyRequests || w.Header().Get("X-Loop-Action") != "reject" {
			t.Errorf("status %d, action %q; want 429, reject", w.Code, w.Header().Get("X-Loop-Action"))
		}
		wg.Wait()
		if !g.delay(httptest.NewRecorder(), throttled(t.Context(), time.Second)) {
			t.Error("there is no room although nobody waits any more")
		}
	})
}
