package gateway

import (
	"net/http"

	"github.com/unloop/unloop/gateway/internal/checkapi"
	"github.com/unloop/unloop/gateway/internal/provider"
	"github.com/unloop/unloop/gateway/internal/respond"
	"github.com/unloop/unloop/schemas/client"
)

// killRetry is the Retry-After of requests that an operator stopped, in seconds, as
// Fairvisor sets it.
const killRetry = "3600"

// answerDecision answers another gateway whether it may forward its request: with 200,
// perhaps after a throttle's delay, with 429, or with 503 where a policy fails closed. The
// request is counted.
func (g *Gateway) answerDecision(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodPost {
		w.Header().Set("Allow", http.MethodPost)
		respond.Error(w, &client.Error{Status: http.StatusMethodNotAllowed, Code: "method_not_allowed", Message: "a decision is asked for with POST"})
		return
	}
	original, err := checkapi.Original(r)
	if err != nil {
		respond.Error(w, &client.Error{Status: http.StatusBadRequest, Code: "invalid_request", Message: err.Error()})
		return
	}
	target, _ := g.table.Route(original) // other gateways have upstreams of their own
	x := g.newExchange(original, target)
	x.Asked = true
	if !g.admit(w, x) || !g.read(w, x) {
		return
	}
	g.parse(x)
	g.identify(x)
	if g.override(x); x.operator.Stops() {
		g.refuse(w, x, x.operator.Refusal(http.StatusTooManyRequests, x.rules.FairvisorHeaders, provider.Header{Name: "Retry-After", Value: killRetry}))
		return
	}
	if x.operator.Exempt == "" {
		g.judge(x)
		g.memory.Answered(&x.Evidence) // the request itself goes past this gateway, or follows
	}
	g.decide(x)
	if g.stop(w, x) || !g.delay(w, x) {
		return
	}
	x.out.Headers.Put(w.Header())
	w.Header().Set("Content-Length", "0")
	w.WriteHeader(http.StatusOK)
}
