package gateway

import (
	"io"
	"net/http"

	"github.com/unloop/unloop/gateway/internal/edge/rpc"
	"github.com/unloop/unloop/gateway/internal/wire/answerscan"
	"github.com/unloop/unloop/gateway/internal/wire/request"
)

// passing implements rpc.Gateway: it decides about requests that go through other proxies.
type passing struct{ *Gateway }

// Exchange answers a request that goes through another proxy, or lets it continue there and
// accounts for its answer.
func (g passing) Exchange(w http.ResponseWriter, r *http.Request, onward rpc.Onward) {
	defer g.bodies.Watch(w, r, request.CallerOf(r)).Free()
	g.traced(w, r, func(w http.ResponseWriter, r *http.Request) { g.answer(w, r, onward) })
}

// Decide answers whether a request may be sent.
func (g passing) Decide(w http.ResponseWriter, r *http.Request) {
	defer g.bodies.Watch(w, r, request.CallerOf(r)).Free()
	g.traced(w, r, g.decideOn)
}

// goOn lets a request continue through another proxy, which delivers the answer, and reads
// that answer. If the proxy shows none, the request stays counted: it may not have failed.
func (f *forwarded) goOn(body *request.Body, onward rpc.Onward) {
	marks := http.Header{}
	f.headers.Put(marks)
	res, err := onward.Pass(body, marks)
	if err != nil {
		return
	}
	f.Sent()
	f.Answered(res)
	ended := false
	if answerscan.IsStream(res.Header) {
		res.Body = answerscan.Last(res, &ended)
	}
	if _, err := io.Copy(io.Discard, res.Body); err != nil && !ended {
		f.Broken()
	}
	_ = res.Body.Close() // it was read
}
