package checkapi

import (
	"errors"
	"net/http"
	"net/url"
	"strings"

	"github.com/unloop/unloop/gateway/internal/edge/respond"
	"github.com/unloop/unloop/gateway/internal/wire/route"
	"github.com/unloop/unloop/schemas/client"
)

// DecisionPath is the path of Fairvisor's decision service, which other gateways ask about
// their requests. It is never forwarded: the request has its client's credentials, which no
// upstream may see.
const DecisionPath = "/v1/decision"

// The headers that describe the request of the other gateway.
const (
	headerOriginalMethod = "X-Original-Method"
	headerOriginalURI    = "X-Original-URI"
	headerOriginalHost   = "X-Original-Host"
)

// Asked returns the request that a decision is asked for; nil after it has written an error.
func Asked(w http.ResponseWriter, r *http.Request) *http.Request {
	if r.Method != http.MethodPost {
		w.Header().Set("Allow", http.MethodPost)
		respond.Error(w, &client.Error{Status: http.StatusMethodNotAllowed, Code: "method_not_allowed", Message: "a decision is asked for with POST"})
		return nil
	}
	out, err := Original(r)
	if err != nil {
		respond.Error(w, &client.Error{Status: http.StatusBadRequest, Code: "invalid_request", Message: err.Error()})
		return nil
	}
	return out
}

// Original returns the request that headers describe. The rest is as in the request that
// asks.
func Original(r *http.Request) (*http.Request, error) {
	out := r.Clone(r.Context())
	for _, name := range []string{headerOriginalMethod, headerOriginalURI, headerOriginalHost} {
		out.Header.Del(name)
	}
	if method := r.Header.Get(headerOriginalMethod); method != "" {
		if !isMethod(method) {
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
