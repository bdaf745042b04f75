package forward

import "net/http"

// maxAgain bounds the retries of one request after a 408. Each uses up an idle connection
// that the server had closed.
const maxAgain = 3

// again is a transport that retries a request whose connection had timed out: some servers
// send a 408 before they close an idle connection, which then looks like the answer to the
// next request on it. http.Transport itself retries requests that a closing connection
// refused, by Request.GetBody.
type again struct{ http.RoundTripper }

// RoundTrip implements http.RoundTripper.
func (t again) RoundTrip(r *http.Request) (*http.Response, error) {
	res, err := t.RoundTripper.RoundTrip(r)
	for n := 0; n < maxAgain && err == nil && timedOutIdle(r, res); n++ {
		body, bodyErr := r.GetBody()
		if bodyErr != nil {
			break
		}
		_ = res.Body.Close()
		next := *r
		next.Body = body
		res, err = t.RoundTripper.RoundTrip(&next)
	}
	return res, err
}

// timedOutIdle reports whether an answer is about an idle connection, and the request can be
// retried.
func timedOutIdle(r *http.Request, res *http.Response) bool {
	return res.StatusCode == http.StatusRequestTimeout && res.Close && callOf(r).reused && r.GetBody != nil
}
