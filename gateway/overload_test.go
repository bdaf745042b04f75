package gateway

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/unloop/unloop/gateway/internal/edge/auth"
	"github.com/unloop/unloop/gateway/internal/rules/bundle"
	"github.com/unloop/unloop/gateway/internal/rules/policystore"
	"github.com/unloop/unloop/gateway/internal/share/limiter"
	"github.com/unloop/unloop/gateway/internal/wire/provider/anthropic"
	"github.com/unloop/unloop/gateway/internal/wire/request"
	"github.com/unloop/unloop/gateway/internal/wire/route"
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
		e := g.check(r, req, auth.Principal{}, &policystore.Rules{Set: &bundle.Set{}})
		g.respond(w, g.openAccount(e), g.decide(e))
		if waited := time.Since(began); waited != limiter.Patience {
			t.Errorf("waited %s", waited)
		}
		if w.Code != http.StatusServiceUnavailable || w.Header().Get("Retry-After") != "1" || !strings.Contains(w.Body.String(), `"type":"error"`) {
			t.Errorf("status %d, %v: %s", w.Code, w.Header(), w.Body)
		}
	})
}
