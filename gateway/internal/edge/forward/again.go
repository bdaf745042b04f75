package forward

import "net/http"

// maxAgain bounds how often one request is sent again after a 408. Each one used up an
// idle connection that its server had given up.
const maxAgain = 3

// again is a transport that sends a request again if its connection had timed out. A server
// may announce that it closes an idle connection with a 408, which then looks like the
// answer to the next request on it. The transport itself sends requests again that a
// closing connection refused; Request.GetBody lets it.
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

// timedOutIdle reports whether an answer says that the connection was idle for too long,
// and the request can be sent again.
func timedOutIdle(r *http.Request, res *http.Response) bool {
	return res.StatusCode == http.StatusRequestTimeout && res.Close && callOf(r).reused && r.GetBody != nil
}
