package rpc

import (
	"cmp"
	"context"
	"errors"
	"io"
	"net/http"
	"strconv"
	"sync"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	procv3 "github.com/envoyproxy/go-control-plane/envoy/service/ext_proc/v3"

	"github.com/unloop/unloop/gateway/internal/edge/intake"
	"github.com/unloop/unloop/gateway/internal/wire/request"
)

// exchange is a request that goes through Envoy, and its answer. One goroutine receives
// Envoy's messages, another takes the request through the gateway. It implements Onward.
type exchange struct {
	stream *processor
	call   *call
	cancel context.CancelFunc
	// silent is Envoy's observability mode, in which answers are ignored. duplex and
	// answerDuplex are set if the bodies are to be sent back. In mode once, the request's
	// body comes in one message, and in mode partial only the beginning of a large one;
	// bodyless requests come without.
	silent, duplex, answerDuplex, once, partial, bodyless bool
	// announced is set if the request has a Content-Length; secrets are the headers that must
	// be removed.
	announced bool
	secrets   []string
	upload    *upload // nil without a body
	answer    chan *http.Response
	// told is closed after a stop was sent, over after the last message from Envoy.
	told, over chan struct{}
	fault      error

	mu sync.Mutex
	// headers, bodies and trailers are the messages that have no answer yet.
	headers, trailers bool
	bodies            int
	decided           bool
	// stop is the answer in the upstream's place; nil if the request continues.
	stop *procv3.ImmediateResponse
	// changed is the body that replaces the request's own; nil for none.
	changed []byte
	marks   http.Header
	// in is the pipe for the answer's body, and parts counts the parts that arrived.
	in    *io.PipeWriter
	parts int
}

// errUnknown means that the proxy does not show the answer.
var errUnknown = errors.New("the proxy does not show the answer")

// send sends a message, unless Envoy ignores answers. If that fails, the call ends, and with
// it receiving.
func (x *exchange) send(m *procv3.ProcessingResponse) {
	if x.silent {
		return
	}
	x.call.writeWithin()
	if err := x.stream.Send(m); err != nil {
		x.cancel()
	}
}

// Pass implements Onward.
func (x *exchange) Pass(body *request.Body, marks http.Header) (*http.Response, error) {
	x.mu.Lock()
	x.decided, x.marks = true, marks
	if body.Changed {
		x.changed = body.Bytes
	}
	x.settle()
	x.mu.Unlock()
	if x.upload != nil {
		x.pump(body)
	}
	select {
	case res := <-x.answer:
		return res, nil
	case <-x.over:
	}
	select {
	case res := <-x.answer:
		return res, nil
	default:
		return nil, errUnknown
	}
}

// pump reads the rest of the body, and sends the body back if the proxy wants that. It
// ignores errors: the proxy's answer, or the end of its stream, shows what happened.
func (x *exchange) pump(body *request.Body) {
	if !x.duplex {
		_, _ = io.Copy(io.Discard, body.Reader())
		_ = x.upload.Close() // never fails
		return
	}
	const part = 60 << 10 // Envoy buffers a little more
	from := body.Reader()
	buffer := make([]byte, min(part, max(len(body.Bytes), 1)))
	var err error
	for err == nil {
		var n int
		if n, err = io.ReadFull(from, buffer); n > 0 {
			x.sendBack(buffer[:n], false)
		}
	}
	_ = x.upload.Close() // its end may still come, and nothing else
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		x.call.readWithin(intake.IdleTime)
		<-x.upload.ended
		x.call.readWithin(0)
		x.sendEnd()
	}
}

// sendBack sends a part of the request's body back.
func (x *exchange) sendBack(part []byte, last bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.sendBody(streamed(part, last))
}

// sendEnd ends the body that is sent back.
func (x *exchange) sendEnd() {
	x.mu.Lock()
	trailers := x.trailers
	x.trailers = false
	x.mu.Unlock()
	if !trailers {
		x.sendBack(nil, true)
		return
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	x.send(requestTrailers())
}

// sendHeaders answers the request's headers; sendBody answers its body or a part of it.
func (x *exchange) sendHeaders(m *procv3.HeaderMutation) {
	x.send(&procv3.ProcessingResponse{Response: &procv3.ProcessingResponse_RequestHeaders{
		RequestHeaders: &procv3.HeadersResponse{Response: &procv3.CommonResponse{HeaderMutation: m}},
	}})
}

func (x *exchange) sendBody(r *procv3.CommonResponse) {
	x.send(&procv3.ProcessingResponse{Response: &procv3.ProcessingResponse_RequestBody{RequestBody: &procv3.BodyResponse{Response: r}}})
}

func streamed(part []byte, last bool) *procv3.CommonResponse {
	return &procv3.CommonResponse{BodyMutation: &procv3.BodyMutation{Mutation: &procv3.BodyMutation_StreamedResponse{
		StreamedResponse: &procv3.StreamedBodyResponse{Body: part, EndOfStream: last},
	}}}
}

func requestTrailers() *procv3.ProcessingResponse {
	return &procv3.ProcessingResponse{Response: &procv3.ProcessingResponse_RequestTrailers{RequestTrailers: &procv3.TrailersResponse{}}}
}

// settle answers the waiting messages once the request is decided; the lock is held.
func (x *exchange) settle() {
	switch {
	case !x.decided || !x.headers && !x.trailers && x.bodies == 0:
	case x.stop != nil:
		x.settleStop()
	default:
		x.settlePass()
	}
}

// settleStop sends the answer in the upstream's place, once.
func (x *exchange) settleStop() {
	select {
	case <-x.told:
		return
	default:
	}
	x.send(&procv3.ProcessingResponse{Response: &procv3.ProcessingResponse_ImmediateResponse{ImmediateResponse: x.stop}})
	close(x.told)
}

// settlePass lets the waiting messages continue. A changed body replaces the first part of
// the original; the other parts become empty.
func (x *exchange) settlePass() {
	if x.headers {
		x.headers = false
		x.sendHeaders(x.mutation(x.changed, x.secrets))
	}
	for ; x.bodies > 0; x.bodies-- {
		response := &procv3.CommonResponse{}
		switch {
		case len(x.changed) > 0:
			response.HeaderMutation = x.mutation(x.changed, nil)
			response.BodyMutation = &procv3.BodyMutation{Mutation: &procv3.BodyMutation_Body{Body: x.changed}}
			x.changed = []byte{}
		case x.changed != nil:
			response.BodyMutation = &procv3.BodyMutation{Mutation: &procv3.BodyMutation_ClearBody{ClearBody: true}}
		}
		x.sendBody(response)
	}
	if x.trailers && (!x.duplex || x.upload == nil) {
		x.trailers = false
		x.send(requestTrailers())
	}
}

// digests are the headers with digests of the client's own body.
var digests = []string{"content-md5", "content-digest", "repr-digest", "digest", "x-goog-hash"}

// mutation returns the changes to a request's headers that a changed body needs.
func (x *exchange) mutation(changed []byte, without []string) *procv3.HeaderMutation {
	m := &procv3.HeaderMutation{RemoveHeaders: without}
	if len(changed) == 0 {
		return m
	}
	m.RemoveHeaders = append(m.RemoveHeaders, digests...)
	if x.announced {
		m.SetHeaders = []*corev3.HeaderValueOption{{
			Header:       &corev3.HeaderValue{Key: "content-length", RawValue: strconv.AppendInt(nil, int64(len(changed)), 10)},
			AppendAction: corev3.HeaderValueOption_OVERWRITE_IF_EXISTS_OR_ADD,
		}}
	}
	return m
}

// answered handles the headers of the answer, and adds Unloop's.
func (x *exchange) answered(h *procv3.HttpHeaders) {
	d := describe(h.GetHeaders())
	if x.upload != nil { // an answer may come before all of the request
		x.upload.end(errCut)
	}
	res := &http.Response{StatusCode: cmp.Or(d.status, http.StatusOK), Proto: "HTTP/2.0", ProtoMajor: 2, Header: d.header, Body: http.NoBody, ContentLength: announced(d.header)}
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.in != nil {
		return
	}
	var out *io.PipeReader
	out, x.in = io.Pipe()
	if h.GetEndOfStream() {
		_ = x.in.Close() // never fails
	}
	res.Body = out
	if !x.decided { // a filter in front of the upstream answered
		x.cancel()
		_ = out.Close() // nobody reads it
	}
	x.send(&procv3.ProcessingResponse{Response: &procv3.ProcessingResponse_ResponseHeaders{ResponseHeaders: &procv3.HeadersResponse{
		Response: &procv3.CommonResponse{HeaderMutation: &procv3.HeaderMutation{SetHeaders: replaced(x.marks), RemoveHeaders: forged(d.header, x.marks)}},
	}}})
	x.answer <- res
}

// downloaded handles a part of the answer's body, which passes at once.
func (x *exchange) downloaded(b *procv3.HttpBody) {
	response := &procv3.CommonResponse{}
	if x.answerDuplex {
		response = streamed(b.GetBody(), b.GetEndOfStream())
	}
	x.mu.Lock()
	x.send(&procv3.ProcessingResponse{Response: &procv3.ProcessingResponse_ResponseBody{ResponseBody: &procv3.BodyResponse{Response: response}}})
	x.mu.Unlock()
	x.download(b.GetBody(), b.GetEndOfStream())
}

// download writes a part of the answer's body to its reader.
func (x *exchange) download(part []byte, last bool) {
	if x.in == nil {
		return
	}
	x.parts++
	if len(part) > 0 {
		_, _ = x.in.Write(part) // who reads no more wants no more
	}
	if last {
		_ = x.in.Close() // never fails
	}
}
