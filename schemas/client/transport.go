package client

import (
	"io"
	"net/http"
)

// Transport is an http.RoundTripper that turns Unloop's 429 for a loop into a
// *LoopDetectedError. Every other answer, a provider's own rate limit among
// them, passes as it is.
//
// With an http.Client, the call fails with an error that errors.As finds the
// *LoopDetectedError in. The answer's header and body are in that error.
//
// With OpenAI's and Anthropic's SDKs for Go, which take a failed round trip for
// a broken connection and would try again, the answer is handed on instead, so
// that its x-should-retry header ends the call at once; reading its body ends
// in the *LoopDetectedError, which the SDKs return as it is.
type Transport struct {
	// Base makes the round trips; nil means http.DefaultTransport.
	Base http.RoundTripper
}

// RoundTrip sends a request.
func (t *Transport) RoundTrip(req *http.Request) (*http.Response, error) {
	base := t.Base
	if base == nil {
		base = http.DefaultTransport
	}
	res, err := base.RoundTrip(req)
	if err != nil {
		return nil, err
	}
	loop := FromResponse(res)
	switch {
	case loop == nil:
		return res, nil
	case retries(req):
		res.Body = rewound{io.MultiReader(res.Body, rest{err: loop}), res.Body}
		return res, nil
	default:
		_ = res.Body.Close() // it was read
		return nil, loop
	}
}

// retries says whether the request comes from an SDK that retries failed round
// trips: the Stainless generator's, which OpenAI and Anthropic use, count their
// tries in this header.
func retries(req *http.Request) bool { return req.Header.Get("X-Stainless-Retry-Count") != "" }
