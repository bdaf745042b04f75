package gateway

import (
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/unloop/unloop/gateway/internal/ask/ask"
	"github.com/unloop/unloop/gateway/internal/decide/evidence"
	"github.com/unloop/unloop/gateway/internal/rules/bundle"
	"github.com/unloop/unloop/gateway/internal/rules/policystore"
	"github.com/unloop/unloop/gateway/internal/share/limiter"
	"github.com/unloop/unloop/gateway/internal/wire/provider/anthropic"
	"github.com/unloop/unloop/gateway/internal/wire/request"
	"github.com/unloop/unloop/gateway/internal/wire/route"
	"github.com/unloop/unloop/schemas/checkpb"
)

func TestARequestThatGetsNoSlotGetsA503OfItsFormat(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := withoutCluster(prometheus.NewRegistry())
		for full := false; !full; { // of requests that are checked
			ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
			_, err := g.limiter.Take(ctx, 1, false)
			cancel()
			full = err != nil
		}
		r := httptest.NewRequest(http.MethodPost, "/v1/messages", nil)
		req := request.New(r, route.Target{Format: anthropic.Format})
		req.Body = &request.Body{}
		w, began := httptest.NewRecorder(), time.Now()
		e := g.check(r, req, request.Principal{}, &policystore.Rules{Set: &bundle.Set{}})
		g.respond(w, g.openAccount(e), g.decide(e))
		if waited := time.Since(began); waited != limiter.Patience {
			t.Errorf("waited %s", waited)
		}
		if w.Code != http.StatusServiceUnavailable || w.Header().Get("Retry-After") != "1" || !strings.Contains(w.Body.String(), `"type":"error"`) {
			t.Errorf("status %d, %v: %s", w.Code, w.Header(), w.Body)
		}
	})
}

// slow are detectors that take their time for each decision.
type slow time.Duration

func (s slow) Check(context.Context, *checkpb.Check) (*checkpb.Decision, bool, error) {
	<-time.After(time.Duration(s))
	return &checkpb.Decision{}, false, nil
}

// A check that may wait longer than the timeout must not keep others from being checked.
func TestACheckThatWaitsLongerLeavesItsSlot(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := withoutCluster(prometheus.NewRegistry())
		g.cfg.CheckTimeout = 50 * time.Millisecond
		for takes, want := range map[time.Duration]time.Duration{time.Second: g.cfg.CheckTimeout, time.Millisecond: time.Millisecond} {
			g.asker = ask.New(slow(takes), slog.New(slog.DiscardHandler), time.Now, prometheus.NewRegistry())
			r := httptest.NewRequest(http.MethodPost, "/v1/messages", nil)
			e := &exchange{http: r, req: request.New(r, route.Target{Format: anthropic.Format}), evidence: evidence.Evidence{Check: &checkpb.Check{}}}
			var given time.Duration
			began := time.Now()
			give := sync.OnceFunc(func() { given = time.Since(began) })
			answer := g.ask(e, give)
			if give(); given != want || answer.Degraded != "" {
				t.Errorf("a check of %s gave its slot back after %s: %+v", takes, given, answer)
			}
		}
	})
}
