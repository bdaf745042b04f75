package gateway

import (
	"errors"
	"net/http"
	"net/url"
	"strings"

	"github.com/unloop/unloop/gateway/internal/provider"
	"github.com/unloop/unloop/gateway/internal/respond"
	"github.com/unloop/unloop/gateway/internal/route"
	"github.com/unloop/unloop/schemas/client"
)

// decisionPath is that of Fairvisor's decision service, which other gateways ask
// about their own requests. It is answered here: the request bears its client's
// credentials, and no upstream may see them.
const decisionPath = "/v1/decision"

// killRetry is how many seconds clients whose requests an operator stopped are told
// to wait, as Fairvisor tells them.
const killRetry = "3600"

// The headers that describe the request that a decision is about.
const (
	headerOriginalMethod = "X-Original-Method"
	headerOriginalURI    = "X-Original-URI"
	headerOriginalHost   = "X-Original-Host"
)

// answerDecision says whether another gateway may forward its request: 200, perhaps
// after a throttle's delay, or 429; 503 where a policy fails closed. The request is
// counted.
func (g *Gateway) answerDecision(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodPost {
		w.Header().Set("Allow", http.MethodPost)
		respond.Error(w, &client.Error{Status: http.StatusMethodNotAllowed, Code: "method_not_allowed", Message: "a decision is asked for with POST"})
		return
	}
	original, err := originalOf(r)
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

// originalOf is the request that a decision is about. What its headers do not say is
// as in the question.
func originalOf(r *http.Request) (*http.Request, error) {
	out := r.Clone(r.Context())
	for _, name := range []string{headerOriginalMethod, headerOriginalURI, headerOriginalHost} {
		out.Header.Del(name)
	}
	if method := r.Header.Get(headerOriginalMethod); method != "" {
		if strings.Trim(method, "ABCDEFGHIJKLMNOPQRSTUVWXYZ-") != "" {
			return nil, errors.New(headerOriginalMethod + " must be a method in capitals")
		}
		out.Method = method
	}
	if uri := r.Header.Get(headerOriginalURI); uri != "" {
		parsed, err := url.ParseRequestURI(uri)
		if err != nil || !strings.HasPrefix(uri, "/") || strings.HasPrefix(parsed.Path, route.Reserved) {
			return nil, errors.New(headerOriginalURI + " must be a path such as /v1/chat/completions, and none of Unloop's own")
		}
		out.URL, out.RequestURI = parsed, uri
	}
	if host := r.Header.Get(headerOriginalHost); host != "" {
		out.Host = host
	}
	return out, nil
}
