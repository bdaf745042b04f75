package checkapi

import (
	"errors"
	"net/http"
	"net/url"
	"strings"

	"github.com/unloop/unloop/gateway/internal/wire/route"
)

// DecisionPath is the path of Fairvisor's decision service, which other gateways ask
// about their own requests. The gateway answers it: the request has its client's
// credentials, which no upstream may see.
const DecisionPath = "/v1/decision"

// The headers that describe the request of the other gateway.
const (
	headerOriginalMethod = "X-Original-Method"
	headerOriginalURI    = "X-Original-URI"
	headerOriginalHost   = "X-Original-Host"
)

// Original returns the request that a decision is asked for. What its headers do not say
// is as in the request that asks.
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
