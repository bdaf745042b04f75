package client

import (
	"io"
	"net/http"
)

// Transport is an http.RoundTripper that turns Unloop's 429 for a loop into a
// *LoopDetectedError. Other answers, such as a provider's own rate limit, pass
// unchanged.
//
// The call of an http.Client fails with an error in which errors.As finds the
// *LoopDetectedError, with the answer's header and body.
//
// OpenAI's and Anthropic's SDKs for Go take a failed round trip for a broken connection
// and would try again. They get the answer, whose x-should-retry header ends the call at
// once; reading its body fails with the *LoopDetectedError, which the SDKs return.
type Transport struct {
	// Base sends the requests; nil means http.DefaultTransport.
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

// retries reports whether the request comes from an SDK that retries failed round trips.
// SDKs made by the Stainless generator, such as OpenAI's and Anthropic's, count their
// tries in this header.
func retries(req *http.Request) bool { return req.Header.Get("X-Stainless-Retry-Count") != "" }
