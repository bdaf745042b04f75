package gateway

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/unloop/unloop/gateway/internal/edge/auth"
	"github.com/unloop/unloop/gateway/internal/edge/respond"
	"github.com/unloop/unloop/gateway/internal/rules/bundle"
	"github.com/unloop/unloop/gateway/internal/rules/policystore"
	"github.com/unloop/unloop/gateway/internal/share/turns"
	"github.com/unloop/unloop/gateway/internal/wire/provider/anthropic"
	"github.com/unloop/unloop/gateway/internal/wire/request"
	"github.com/unloop/unloop/gateway/internal/wire/route"
)

func TestARequestWhoseTurnDoesNotComeGetsA503OfItsFormat(t *testing.T) {
	t.Parallel()
	reg := prometheus.NewRegistry()
	g := &Gateway{metrics: newMetrics(reg), stages: stages{now: time.Now}, writer: respond.NewWriter(time.Now, reg)}
	g.turns = turns.None()
	r := httptest.NewRequest(http.MethodPost, "/v1/messages", nil)
	req := request.New(r, route.Target{Format: anthropic.Format})
	req.Body = &request.Body{}
	w := httptest.NewRecorder()
	e := g.check(r, req, auth.Principal{}, &policystore.Rules{Set: &bundle.Set{}})
	out := g.decide(e)
	g.respond(w, g.openAccount(e), out)
	if w.Code != http.StatusServiceUnavailable || w.Header().Get("Retry-After") != "1" || !strings.Contains(w.Body.String(), `"type":"error"`) {
		t.Errorf("status %d, %v: %s", w.Code, w.Header(), w.Body)
	}
}
