// Package rpc answers other gateways over gRPC: Envoy and those that speak its protocols
// (ext_proc, ext_authz), and agentgateway (ExtMcp). Each protocol has a file.
//
// It does not know how a request is decided: its Gateway does.
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
	// envelope is the size of a message, in bytes, beyond that of the largest body: headers
	// come in messages, too.
	envelope = 64 << 10
	// maxCalls bounds the concurrent calls; one caller may have half of them. A request that
	// goes through Envoy is a call until its answer ends.
	maxCalls = 8192
)

// Onward lets a request continue through the proxy that asks about it.
type Onward interface {
	// Pass lets the request continue with a body, perhaps a changed one, and returns its
	// answer, which gets the headers in marks. It fails if the proxy shows no answer.
	Pass(body *request.Body, marks http.Header) (*http.Response, error)
}

// Gateway decides about other gateways' requests.
type Gateway interface {
	// Exchange answers a request, or lets it continue and reads its answer.
	Exchange(w http.ResponseWriter, r *http.Request, onward Onward)
	// Decide answers with 200 if a request may be sent, else with the answer for its client.
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
	// calls is the number of concurrent calls, by that of each caller's.
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

// enter counts a call; false if its caller may have no more.
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
	// peer is the client's address.
	peer string
	// writing is the write deadline.
	writing time.Time
}

type callKey struct{}

func callOf(ctx context.Context) *call { return ctx.Value(callKey{}).(*call) }

// readWithin ends the call if its client sends nothing for d; 0 waits forever, and a negative
// d ends it now. Only the writers of tests have no deadlines.
func (c *call) readWithin(d time.Duration) {
	var at time.Time
	if d != 0 {
		at = time.Now().Add(d)
	}
	_ = c.control.SetReadDeadline(at)
}

// writeWithin ends the call if its client does not read for one to two minutes. Setting a
// deadline takes longer than sending, so it is set seldom.
func (c *call) writeWithin() {
	if now := time.Now(); c.writing.Sub(now) < intake.IdleTime {
		c.writing = now.Add(2 * intake.IdleTime)
		_ = c.control.SetWriteDeadline(c.writing)
	}
}

// keyed replaces the key in the request's headers by the one in the call's metadata, if that
// has one.
func keyed(h, metadata http.Header) {
	if key := cmp.Or(metadata.Get(access.Header), h.Get(access.Header)); key != "" {
		h.Set(access.Header, key)
	}
}
