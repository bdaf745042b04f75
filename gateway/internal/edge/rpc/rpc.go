// Package rpc answers gateways that ask over gRPC: Envoy and those that speak its protocols
// (ext_proc, ext_authz), and agentgateway (ExtMcp). A protocol has a file.
//
// It knows their protocols. How a request is decided it may not know: its Gateway does.
package rpc

import (
	"cmp"
	"context"
	"net/http"
	"strings"
	"sync"
	"time"

	"connectrpc.com/connect"

	"github.com/unloop/unloop/gateway/internal/edge/checkapi"
	"github.com/unloop/unloop/gateway/internal/edge/intake"
	"github.com/unloop/unloop/gateway/internal/edge/serve"
	"github.com/unloop/unloop/gateway/internal/share/fair"
	"github.com/unloop/unloop/gateway/internal/wire/request"
	"github.com/unloop/unloop/schemas/kit/access"
)

const (
	// envelope is how much larger a message may be than the body in it, in bytes: the
	// headers of a request come in messages, too.
	envelope = 64 << 10
	// maxCalls bounds the calls at the same time; one caller may have half of them. A request
	// that passes Envoy is a call until its answer is over.
	maxCalls = 8192
)

// Onward lets a request go on, behind the proxy that asks about it.
type Onward interface {
	// Pass lets the request go on with a body, which may be another than it came with, and
	// returns its answer as that comes in. The answer gets the headers in marks. The error says
	// that the proxy shows no answer.
	Pass(body *request.Body, marks http.Header) (*http.Response, error)
}

// Gateway decides about requests of other gateways.
type Gateway interface {
	// Exchange answers a request, or lets it go on and reads its answer.
	Exchange(w http.ResponseWriter, r *http.Request, onward Onward)
	// Decide answers whether a request may be sent: with 200 if so, and else with what its
	// client is to get.
	Decide(w http.ResponseWriter, r *http.Request)
}

// Config is what a handler is made of.
type Config struct {
	Gateway Gateway
	API     *checkapi.API
	// MaxBytes bounds bodies that come in one message.
	MaxBytes int64
	// Bodies accounts for the memory of messages.
	Bodies *intake.Bodies
}

// Handler answers all calls. Make it with New.
type Handler struct {
	cfg   Config
	mux   http.ServeMux
	fault *connect.ErrorWriter

	mu sync.Mutex
	// calls are those at this time, and by has those of each caller.
	calls int64
	by    map[fair.Caller]int64
}

// New returns a handler.
func New(cfg Config) *Handler {
	h := &Handler{cfg: cfg, fault: connect.NewErrorWriter(), by: map[fair.Caller]int64{}}
	for path, handler := range map[string]http.Handler{
		processPath:       connect.NewBidiStreamHandler(processPath, h.process),
		authorizePath:     connect.NewUnaryHandler(authorizePath, h.authorize),
		checkRequestPath:  connect.NewUnaryHandler(checkRequestPath, h.checkRequest),
		checkResponsePath: connect.NewUnaryHandler(checkResponsePath, h.checkResponse),
	} {
		h.mux.Handle(path, handler)
	}
	return h
}

// ServeHTTP answers one call of gRPC.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if kind := r.Header.Get("Content-Type"); kind != "application/grpc" && !strings.HasPrefix(kind, "application/grpc+") {
		http.Error(w, "this address speaks gRPC", http.StatusUnsupportedMediaType)
		return
	}
	caller := request.CallerOf(r)
	if !h.enter(caller) {
		_ = h.fault.Write(w, r, connect.NewError(connect.CodeResourceExhausted, errTooMany)) // who left needs no answer
		return
	}
	defer h.leave(caller)
	f := &frames{ReadCloser: r.Body, memory: h.cfg.Bodies.Reserve(r.Context(), caller), max: int(h.cfg.MaxBytes) + envelope}
	defer f.memory.Free()
	c := &call{frames: f, control: http.NewResponseController(w), peer: r.RemoteAddr}
	c.readWithin(serve.HeaderTimeout)
	r.Body = f
	h.mux.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), callKey{}, c)))
}

// enter counts a call, and reports whether its caller may have one more.
func (h *Handler) enter(caller fair.Caller) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !fair.May(h.by[caller], 1, maxCalls-h.calls) {
		return false
	}
	h.calls++
	h.by[caller]++
	return true
}

func (h *Handler) leave(caller fair.Caller) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.calls--
	if h.by[caller]--; h.by[caller] == 0 {
		delete(h.by, caller)
	}
}

// call is one call of gRPC.
type call struct {
	*frames
	control *http.ResponseController
	// peer is the address that it comes from.
	peer string
	// writing is the time at which writing ends.
	writing time.Time
}

type callKey struct{}

func callOf(ctx context.Context) *call { return ctx.Value(callKey{}).(*call) }

// readWithin ends the call if it sends nothing for so long; 0 waits forever, and a negative
// time ends it now. Writers without deadlines are those of tests.
func (c *call) readWithin(d time.Duration) {
	var at time.Time
	if d != 0 {
		at = time.Now().Add(d)
	}
	_ = c.control.SetReadDeadline(at)
}

// writeWithin ends the call if what is sent next is not read for a minute or two. Setting the
// time takes longer than sending.
func (c *call) writeWithin() {
	if now := time.Now(); c.writing.Sub(now) < intake.IdleTime {
		c.writing = now.Add(2 * intake.IdleTime)
		_ = c.control.SetWriteDeadline(c.writing)
	}
}

// keyed puts the key of a call's metadata in the place of the one in the request's headers.
func keyed(h, metadata http.Header) {
	if key := cmp.Or(metadata.Get(access.Header), h.Get(access.Header)); key != "" {
		h.Set(access.Header, key)
	}
}
