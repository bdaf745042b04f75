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

// exchange is a request that passes Envoy, and its answer. One goroutine takes Envoy's
// messages, another one the request through the gateway. It implements Onward.
type exchange struct {
	stream *processor
	call   *call
	cancel context.CancelFunc
	// silent says that Envoy only shows the request, duplex and answerDuplex that the bodies are
	// sent back in full. The request's body comes in one message once, or partial if it is
	// large; none comes if the mode is bodyless.
	silent, duplex, answerDuplex, once, partial, bodyless bool
	// announced says that the request's headers have the length of its body, and secrets
	// are those which must not go on.
	announced bool
	secrets   []string
	upload    *upload // nil without a body
	answer    chan *http.Response
	// told is closed when a stop was sent, and over when no further message comes.
	told, over chan struct{}
	fault      error

	mu sync.Mutex
	// headers, bodies and trailers are the messages that are not answered yet.
	headers, trailers bool
	bodies            int
	decided           bool
	// stop is the answer in the upstream's place; nil if the request goes on.
	stop *procv3.ImmediateResponse
	// changed is the body that takes the place of the request's own; nil for none.
	changed []byte
	marks   http.Header
	// in passes on the answer's body, of which so many parts came.
	in    *io.PipeWriter
	parts int
}

// errUnknown is the error for an answer that the proxy does not show.
var errUnknown = errors.New("the proxy does not show the answer")

// send sends a message unless the exchange is only observed. A call that can't be answered
// ends, and so does what is received.
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

// pump sends the body back where the proxy wants that, and reads what was not read yet. Its
// end may come without the proxy's, whose answer or end shows what happened then.
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

// sendBack sends a part of the request's body on its way.
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

// sendHeaders answers the request's headers with changes of them, and sendBody its body or a part of
// it.
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

// settle answers the messages that wait, once the request is decided; the lock is held.
func (x *exchange) settle() {
	switch {
	case !x.decided || !x.headers && !x.trailers && x.bodies == 0:
	case x.stop != nil:
		x.settleStop()
	default:
		x.settlePass()
	}
}

// settleStop answers what waits, once, in the upstream's place.
func (x *exchange) settleStop() {
	select {
	case <-x.told:
		return
	default:
	}
	x.send(&procv3.ProcessingResponse{Response: &procv3.ProcessingResponse_ImmediateResponse{ImmediateResponse: x.stop}})
	close(x.told)
}

// settlePass lets what waits go on. The first part of a body gives its place to the body that
// was changed, and the others have nothing left.
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

// digests are the headers that describe the bytes of the client's own body.
var digests = []string{"content-md5", "content-digest", "repr-digest", "digest", "x-goog-hash"}

// mutation returns the changes of a request's headers for its body.
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

// answered takes the headers of the answer, which get those that say what was found.
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

// downloaded takes a part of the answer's body, which passes at once.
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

// download passes on a part of the answer's body to who reads it.
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
