package rpc

import (
	"context"
	"errors"
	"io"
	"net/http"
	"sync"

	"connectrpc.com/connect"
	modev3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/ext_proc/v3"
	procv3 "github.com/envoyproxy/go-control-plane/envoy/service/ext_proc/v3"

	"github.com/unloop/unloop/gateway/internal/edge/intake"
	"github.com/unloop/unloop/gateway/internal/edge/respond"
)

const processPath = "/envoy.service.ext_proc.v3.ExternalProcessor/Process"

// processor is a stream of Envoy's external processing.
type processor = connect.BidiStream[procv3.ProcessingRequest, procv3.ProcessingResponse]

// process takes a request of Envoy's, and its answer, through the gateway.
func (h *Handler) process(ctx context.Context, s *processor) error {
	c := callOf(ctx)
	first, err := s.Receive()
	if err != nil {
		return err
	}
	headers := first.GetRequestHeaders()
	if headers == nil {
		return connect.NewError(connect.CodeInvalidArgument, errors.New("the first message must have the request's headers: set request_header_mode to SEND"))
	}
	c.readWithin(0) // a model may think for minutes
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	x := newExchange(s, c, first, cancel)
	d := describe(headers.GetHeaders())
	keyed(d.header, s.RequestHeader())
	x.begin(&d, headers.GetEndOfStream())
	r, err := d.request(ctx, c.peer)
	if err != nil {
		return connect.NewError(connect.CodeInvalidArgument, err)
	}
	var receiving sync.WaitGroup
	receiving.Go(x.receive)
	w := newWriter(x.upload)
	h.cfg.Gateway.Exchange(w, r, x)
	x.finish(w)
	select {
	case <-x.over:
		return x.fault
	default: // what comes now comes too late
		c.readWithin(-1)
		receiving.Wait()
		return nil
	}
}

// newExchange returns the exchange for a first message.
func newExchange(s *processor, c *call, first *procv3.ProcessingRequest, cancel context.CancelFunc) *exchange {
	mode := first.GetProtocolConfig()
	body := mode.GetRequestBodyMode()
	x := &exchange{
		stream: s, call: c, cancel: cancel, silent: first.GetObservabilityMode(),
		duplex:       body == modev3.ProcessingMode_FULL_DUPLEX_STREAMED,
		answerDuplex: mode.GetResponseBodyMode() == modev3.ProcessingMode_FULL_DUPLEX_STREAMED,
		once:         body == modev3.ProcessingMode_BUFFERED, partial: body == modev3.ProcessingMode_BUFFERED_PARTIAL,
		bodyless: mode != nil && body == modev3.ProcessingMode_NONE,
		answer:   make(chan *http.Response, 1), told: make(chan struct{}), over: make(chan struct{}),
	}
	if x.silent { // answers to what is only observed are ignored
		close(x.told)
	}
	return x
}

// begin prepares the body of a request. If Envoy sends the body only after an answer to the
// headers, begin answers them.
func (x *exchange) begin(d *described, ended bool) {
	x.secrets, x.announced = secrets(d.header), d.header.Get("Content-Length") != ""
	if ended || x.bodyless {
		x.headers = true
		return
	}
	x.upload = newUpload()
	d.body, d.length = x.upload, announced(d.header)
	if x.partial {
		d.length = -1
	}
	if x.duplex {
		x.headers = true
		return
	}
	x.sendHeaders(&procv3.HeaderMutation{RemoveHeaders: x.secrets})
}

// finish sends the gateway's own answer, if there is one, and returns when it was sent.
func (x *exchange) finish(w *writer) {
	x.call.readWithin(intake.IdleTime)
	if x.upload != nil {
		_ = x.upload.Close() // nobody reads the rest
	}
	x.mu.Lock()
	if x.in == nil && !x.decided && w.Status != 0 && w.Status != respond.StatusClientLeft {
		x.decided, x.stop = true, &procv3.ImmediateResponse{
			Status: statusOf(w.Status), Headers: &procv3.HeaderMutation{SetHeaders: replaced(w.Headers)}, Body: w.Body.Bytes(), Details: "unloop",
		}
		x.settle()
	}
	waits := x.stop != nil
	x.mu.Unlock()
	if waits {
		select {
		case <-x.told:
		case <-x.over:
		}
	}
}

// receive handles all messages after the first.
func (x *exchange) receive() {
	defer x.end()
	for {
		m, err := x.stream.Receive()
		if err != nil {
			if !errors.Is(err, io.EOF) {
				x.fault = err
			}
			return
		}
		if x.fault = x.take(m); x.fault != nil {
			return
		}
		x.call.done()
	}
}

// take handles a message.
func (x *exchange) take(m *procv3.ProcessingRequest) error {
	switch {
	case m.GetRequestBody() != nil:
		x.uploaded(m.GetRequestBody())
	case m.GetRequestTrailers() != nil:
		x.trailed()
	case m.GetResponseHeaders() != nil:
		x.answered(m.GetResponseHeaders())
	case m.GetResponseBody() != nil:
		x.downloaded(m.GetResponseBody())
	case m.GetResponseTrailers() != nil:
		x.send(&procv3.ProcessingResponse{Response: &procv3.ProcessingResponse_ResponseTrailers{ResponseTrailers: &procv3.TrailersResponse{}}})
		x.download(nil, true)
	case m.GetRequestHeaders() != nil:
		return connect.NewError(connect.CodeInvalidArgument, errors.New("a stream is for one request"))
	}
	return nil // a message without a part is about flow control
}

// uploaded handles a part of the request's body.
func (x *exchange) uploaded(b *procv3.HttpBody) {
	x.mu.Lock()
	if !x.duplex || x.upload == nil {
		x.bodies++
	}
	x.settle()
	x.mu.Unlock()
	if x.upload == nil { // of a mode in which no body was to come
		return
	}
	x.upload.add(b.GetBody())
	if b.GetEndOfStream() || x.once || x.partial {
		x.upload.end(nil)
	}
}

// trailed handles the request's trailers, which follow its body.
func (x *exchange) trailed() {
	x.mu.Lock()
	x.trailers = true
	if !x.duplex || x.upload == nil {
		x.settle()
	}
	x.mu.Unlock()
	if x.upload != nil {
		x.upload.end(nil)
	}
}

// end ends what is still open after the last message.
func (x *exchange) end() {
	if x.upload != nil {
		x.upload.end(errCut)
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	switch {
	case x.in == nil && !x.decided:
		x.cancel()
	case x.in != nil && x.parts > 0:
		x.cancel()
		_ = x.in.CloseWithError(errCut) // the same as below
	case x.in != nil: // of a mode in which no body comes
		_ = x.in.Close() // never fails
	}
	close(x.over)
}

// errCut means that the proxy did not send all of a body.
var errCut = errors.New("the proxy ended the stream")
