package rpc

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	modev3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/ext_proc/v3"
	authv3 "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	procv3 "github.com/envoyproxy/go-control-plane/envoy/service/ext_proc/v3"
	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/unloop/unloop/gateway/internal/edge/intake"
	"github.com/unloop/unloop/gateway/internal/edge/serve"
	"github.com/unloop/unloop/gateway/internal/wire/request"
	"github.com/unloop/unloop/schemas/kit/access"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// gateway reads the body of each request. It stops those of /stop, and lets others go on with
// a note behind their body if they go to /note.
type gateway struct {
	bodies *intake.Bodies
	// decided gets what Decide is asked, and left why the body of a request ended.
	decided chan *http.Request
	left    chan error
	// answered gets the answers that pass, with their bodies.
	answered chan string
}

func (g *gateway) Exchange(w http.ResponseWriter, r *http.Request, onward Onward) {
	if r.URL.Path == "/refuse" {
		w.WriteHeader(http.StatusUnauthorized)
		return
	}
	u := g.bodies.Watch(w, r, request.CallerOf(r))
	defer u.Free()
	body, err := intake.Read(r, 1<<20)
	if err != nil {
		refusal := intake.Refusal(err)
		w.WriteHeader(refusal.Status)
		_, _ = io.WriteString(w, refusal.Code)
		g.left <- err
		return
	}
	switch r.URL.Path {
	case "/stop":
		w.Header().Set("X-Loop-Action", "reject")
		w.WriteHeader(http.StatusTooManyRequests)
		_, _ = io.WriteString(w, "stopped")
		return
	case "/note":
		body = body.With(append(body.Bytes, "!"...))
	}
	res, err := onward.Pass(body, http.Header{"X-Loop-Action": {"hint"}})
	if err != nil {
		g.answered <- err.Error()
		return
	}
	defer func() { _ = res.Body.Close() }()
	text, err := io.ReadAll(res.Body)
	g.answered <- fmt.Sprintf("%d %s %v", res.StatusCode, text, err)
}

func (g *gateway) Decide(w http.ResponseWriter, r *http.Request) {
	g.decided <- r
	if r.URL.Path == "/wait" {
		<-r.Context().Done()
		w.WriteHeader(http.StatusServiceUnavailable)
	}
}

// maxBytes bounds the bodies of all tests.
const maxBytes = 1 << 20

// serveRPC serves a gateway's calls, and returns a connection to it.
func serveRPC(t *testing.T, memory int64) (*grpc.ClientConn, *gateway) {
	t.Helper()
	g := &gateway{bodies: intake.NewBodies(memory, prometheus.NewRegistry()), decided: make(chan *http.Request, 8), left: make(chan error, 8), answered: make(chan string, 8)}
	listener, err := serve.Listen("--beside-listen", "127.0.0.1:0", serve.Certificate{}, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	done := make(chan error, 1)
	go func() {
		done <- serve.Until(ctx, listener, serve.Config{
			Handler: New(Config{Gateway: g, MaxBytes: maxBytes, Bodies: g.bodies}), Log: slog.New(slog.DiscardHandler), RPC: true, Draining: func() {}, Grace: time.Minute,
		})
	}()
	conn, err := grpc.NewClient(listener.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = conn.Close()
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return conn, g
}

// process opens a stream and sends the headers of a request.
func process(t *testing.T, ctx context.Context, conn *grpc.ClientConn, config *procv3.ProtocolConfiguration, pairs ...string) procv3.ExternalProcessor_ProcessClient { //nolint:revive // the test comes first
	t.Helper()
	stream, err := procv3.NewExternalProcessorClient(conn).Process(ctx)
	if err != nil {
		t.Fatal(err)
	}
	m := &corev3.HeaderMap{}
	for i := 0; i < len(pairs); i += 2 {
		m.Headers = append(m.Headers, &corev3.HeaderValue{Key: pairs[i], RawValue: []byte(pairs[i+1])})
	}
	say(t, stream, &procv3.ProcessingRequest{ProtocolConfig: config, Request: &procv3.ProcessingRequest_RequestHeaders{RequestHeaders: &procv3.HttpHeaders{Headers: m}}})
	return stream
}

func say(t *testing.T, stream procv3.ExternalProcessor_ProcessClient, m *procv3.ProcessingRequest) {
	t.Helper()
	if err := stream.Send(m); err != nil {
		t.Fatal(err)
	}
}

func hear(t *testing.T, stream procv3.ExternalProcessor_ProcessClient) *procv3.ProcessingResponse {
	t.Helper()
	m, err := stream.Recv()
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func requestBody(text string, last bool) *procv3.ProcessingRequest {
	return &procv3.ProcessingRequest{Request: &procv3.ProcessingRequest_RequestBody{RequestBody: &procv3.HttpBody{Body: []byte(text), EndOfStream: last}}}
}

func responseHeaders(status string) *procv3.ProcessingRequest {
	return &procv3.ProcessingRequest{Request: &procv3.ProcessingRequest_ResponseHeaders{ResponseHeaders: &procv3.HttpHeaders{
		Headers: &corev3.HeaderMap{Headers: []*corev3.HeaderValue{{Key: ":status", RawValue: []byte(status)}}},
	}}}
}

func modes(m modev3.ProcessingMode_BodySendMode) *procv3.ProtocolConfiguration {
	return &procv3.ProtocolConfiguration{RequestBodyMode: m, ResponseBodyMode: m}
}

var bufferedModes = modes(modev3.ProcessingMode_BUFFERED)

// What is malformed, hostile or too large gets an error of gRPC.
func TestBadCallsGetErrorsOfRPC(t *testing.T) {
	t.Parallel()
	conn, _ := serveRPC(t, 64<<20)
	for name, c := range map[string]struct {
		first, second *procv3.ProcessingRequest
		code          codes.Code
		says          string
	}{
		"without headers":       {requestBody("x", true), nil, codes.InvalidArgument, "request_header_mode"},
		"without a path":        {&procv3.ProcessingRequest{Request: &procv3.ProcessingRequest_RequestHeaders{RequestHeaders: &procv3.HttpHeaders{}}}, nil, codes.InvalidArgument, ":path"},
		"a body of 2 MiB":       {headersFor("/"), requestBody(strings.Repeat("x", 2<<20), true), codes.ResourceExhausted, "--max-inspect-bytes"},
		"headers of 2 MiB":      {headersFor("/" + strings.Repeat("x", 2<<20)), nil, codes.ResourceExhausted, "--max-inspect-bytes"},
		"two requests in one":   {headersFor("/"), headersFor("/"), codes.InvalidArgument, "one request"},
		"an answer of no state": {headersFor("/"), &procv3.ProcessingRequest{Request: &procv3.ProcessingRequest_ResponseTrailers{}}, codes.OK, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			stream, err := procv3.NewExternalProcessorClient(conn).Process(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			for _, m := range []*procv3.ProcessingRequest{c.first, c.second} {
				if m == nil {
					continue
				}
				if err := stream.Send(m); err != nil && !errors.Is(err, io.EOF) {
					t.Fatal(err)
				}
			}
			_ = stream.CloseSend() // the server may have ended the stream
			for err == nil {
				_, err = stream.Recv()
			}
			if errors.Is(err, io.EOF) {
				err = nil
			}
			if got := status.Convert(err); got.Code() != c.code || !strings.Contains(got.Message(), c.says) {
				t.Errorf("%v, want %v with %q", err, c.code, c.says)
			}
		})
	}
}

func headersFor(path string) *procv3.ProcessingRequest {
	return &procv3.ProcessingRequest{Request: &procv3.ProcessingRequest_RequestHeaders{RequestHeaders: &procv3.HttpHeaders{
		Headers: &corev3.HeaderMap{Headers: []*corev3.HeaderValue{{Key: ":path", RawValue: []byte(path)}}},
	}}}
}

// A message that is no message of the protocol, and calls that are none of gRPC.
func TestOtherProtocolsAreRefused(t *testing.T) {
	t.Parallel()
	conn, _ := serveRPC(t, 64<<20)
	transport := &http.Transport{Protocols: new(http.Protocols)}
	transport.Protocols.SetUnencryptedHTTP2(true)
	t.Cleanup(transport.CloseIdleConnections)
	for kind, want := range map[string]string{"application/json": "415 ", "application/grpc-web+proto": "415 ", "application/grpc+proto": "200 3"} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+conn.Target()+authorizePath, strings.NewReader("\x00\x00\x00\x00\x01\xff"))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Content-Type", kind)
		res, err := transport.RoundTrip(r)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.Copy(io.Discard, res.Body)
		_ = res.Body.Close()
		if got := fmt.Sprintf("%d %s", res.StatusCode, res.Header.Get("Grpc-Status")+res.Trailer.Get("Grpc-Status")); got != want {
			t.Errorf("%s: %s, want %s", kind, got, want)
		}
	}
}

// A client that leaves in the middle of its body is noticed, and one that keeps others
// waiting takes no memory from them.
func TestCallersThatLeaveAreForgotten(t *testing.T) {
	t.Parallel()
	conn, g := serveRPC(t, 64<<20)
	for name, config := range map[string]*procv3.ProtocolConfiguration{"streamed": modes(modev3.ProcessingMode_STREAMED), "duplex": modes(modev3.ProcessingMode_FULL_DUPLEX_STREAMED), "unknown": nil} {
		ctx, leave := context.WithCancel(t.Context())
		stream := process(t, ctx, conn, config, ":path", "/", ":method", "POST")
		say(t, stream, requestBody("half", false))
		leave()
		if err := <-g.left; !errors.Is(err, errCut) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// While a message waits for memory, messages of other callers go on.
func TestMemoryIsSharedByCallers(t *testing.T) {
	t.Parallel()
	conn, g := serveRPC(t, 4<<20)
	here := httptest.NewRequest(http.MethodPost, "/", nil)
	here.RemoteAddr = "127.0.0.1:1"
	greedy := g.bodies.Reserve(t.Context(), request.CallerOf(here))
	if err := greedy.Take(2<<20 - 4<<10); err != nil {
		t.Fatal(err)
	}
	defer greedy.Free()
	stream := process(t, t.Context(), conn, bufferedModes, ":path", "/stop", ":method", "POST", "content-length", "900000")
	hear(t, stream)
	say(t, stream, requestBody(strings.Repeat("x", 900000), true))
	_, err := stream.Recv()
	if status.Code(err) != codes.Unavailable {
		t.Errorf("%v, want no memory", err)
	}
	keyed, err := procv3.NewExternalProcessorClient(conn).Process(withKey(t.Context()))
	if err != nil {
		t.Fatal(err)
	}
	say(t, keyed, headersFor("/stop"))
	hear(t, keyed)
	say(t, keyed, requestBody(strings.Repeat("x", 100000), true))
	if m := hear(t, keyed); string(m.GetImmediateResponse().GetBody()) != "stopped" {
		t.Errorf("another caller: %v", m)
	}
}

// A request that is refused by its headers alone is answered, and its body read by nobody.
func TestABodyThatNobodyReadsHoldsUpNothing(t *testing.T) {
	t.Parallel()
	conn, _ := serveRPC(t, 64<<20)
	for _, mode := range []modev3.ProcessingMode_BodySendMode{modev3.ProcessingMode_BUFFERED, modev3.ProcessingMode_STREAMED, modev3.ProcessingMode_FULL_DUPLEX_STREAMED} {
		stream := process(t, t.Context(), conn, modes(mode), ":path", "/refuse", ":method", "POST")
		if err := stream.Send(requestBody(strings.Repeat("x", 100_000), false)); err != nil && !errors.Is(err, io.EOF) {
			t.Fatal(err)
		}
		m := hear(t, stream)
		if m.GetRequestHeaders() != nil {
			m = hear(t, stream)
		}
		if m.GetImmediateResponse().GetStatus().GetCode() != http.StatusUnauthorized {
			t.Errorf("%v: %v", mode, m)
		}
		if _, err := stream.Recv(); !errors.Is(err, io.EOF) {
			t.Errorf("%v: %v", mode, err)
		}
	}
}

// One caller's calls leave room for those of others.
func TestCallsAreSharedByCallers(t *testing.T) {
	t.Parallel()
	h := New(Config{})
	n := 0
	for h.enter(1) {
		n++
	}
	if n != maxCalls/2 || !h.enter(2) {
		t.Errorf("one caller has %d calls, another one none", n)
	}
	h.leave(2)
	h.leave(1)
	if !h.enter(1) || h.enter(1) {
		t.Error("a call that is over leaves no room")
	}
}

func TestARequestWithoutABodyGoesOn(t *testing.T) {
	t.Parallel()
	conn, g := serveRPC(t, 64<<20)
	m := headersFor("/models")
	m.GetRequestHeaders().EndOfStream = true
	stream, err := procv3.NewExternalProcessorClient(conn).Process(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	say(t, stream, m)
	if got := hear(t, stream); got.GetRequestHeaders() == nil {
		t.Errorf("%v", got)
	}
	if err := stream.CloseSend(); err != nil {
		t.Fatal(err)
	}
	if got := <-g.answered; got != errUnknown.Error() {
		t.Errorf("%s", got)
	}
}

// Trailers follow the bodies, and end them.
func TestTrailersEndBodies(t *testing.T) {
	t.Parallel()
	conn, g := serveRPC(t, 64<<20)
	stream := process(t, t.Context(), conn, modes(modev3.ProcessingMode_FULL_DUPLEX_STREAMED), ":path", "/note", ":method", "POST")
	say(t, stream, requestBody("hel", false))
	say(t, stream, requestBody("lo", false))
	say(t, stream, &procv3.ProcessingRequest{Request: &procv3.ProcessingRequest_RequestTrailers{RequestTrailers: &procv3.HttpTrailers{}}})
	if m := hear(t, stream); m.GetRequestHeaders() == nil {
		t.Errorf("%v", m)
	}
	if got := hear(t, stream).GetRequestBody().GetResponse().GetBodyMutation().GetStreamedResponse(); string(got.GetBody()) != "hello!" || got.GetEndOfStream() {
		t.Errorf("%v", got)
	}
	if m := hear(t, stream); m.GetRequestTrailers() == nil {
		t.Errorf("%v", m)
	}
	say(t, stream, responseHeaders("201"))
	hear(t, stream)
	say(t, stream, &procv3.ProcessingRequest{Request: &procv3.ProcessingRequest_ResponseBody{ResponseBody: &procv3.HttpBody{Body: []byte("hi")}}})
	if got := hear(t, stream).GetResponseBody().GetResponse().GetBodyMutation().GetStreamedResponse(); string(got.GetBody()) != "hi" {
		t.Errorf("%v", got)
	}
	say(t, stream, &procv3.ProcessingRequest{Request: &procv3.ProcessingRequest_ResponseTrailers{ResponseTrailers: &procv3.HttpTrailers{}}})
	if m := hear(t, stream); m.GetResponseTrailers() == nil {
		t.Errorf("%v", m)
	}
	if got := <-g.answered; got != "201 hi <nil>" {
		t.Errorf("the gateway read %s", got)
	}
}

// An answer that breaks off, and one that the proxy shows without its body.
func TestAnswersThatEndEarly(t *testing.T) {
	t.Parallel()
	conn, g := serveRPC(t, 64<<20)
	for want, parts := range map[string]int{"200 hi the proxy ended the stream": 1, "200  <nil>": 0} {
		stream := process(t, t.Context(), conn, bufferedModes, ":path", "/", ":method", "POST")
		hear(t, stream)
		say(t, stream, requestBody("hello", true))
		hear(t, stream)
		say(t, stream, responseHeaders("200"))
		hear(t, stream)
		for range parts {
			say(t, stream, &procv3.ProcessingRequest{Request: &procv3.ProcessingRequest_ResponseBody{ResponseBody: &procv3.HttpBody{Body: []byte("hi")}}})
			hear(t, stream)
		}
		if err := stream.CloseSend(); err != nil {
			t.Fatal(err)
		}
		if got := <-g.answered; got != want {
			t.Errorf("the gateway read %q, want %q", got, want)
		}
	}
}

// Envoy expects no answer to what it only shows.
func TestWhatIsObservedIsNotAnswered(t *testing.T) {
	t.Parallel()
	conn, g := serveRPC(t, 64<<20)
	stream, err := procv3.NewExternalProcessorClient(conn).Process(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	m := headersFor("/note")
	m.ObservabilityMode = true
	say(t, stream, m)
	say(t, stream, requestBody("hello", true))
	if err := stream.CloseSend(); err != nil {
		t.Fatal(err)
	}
	if _, err := stream.Recv(); !errors.Is(err, io.EOF) {
		t.Errorf("%v", err)
	}
	if got := <-g.answered; got != errUnknown.Error() {
		t.Errorf("%s", got)
	}
}

// A body that is larger than what is inspected passes in both ways while it comes in.
func TestLargeBodiesPassWhileTheyComeIn(t *testing.T) {
	t.Parallel()
	conn, g := serveRPC(t, 64<<20)
	const parts = 40
	text := strings.Repeat("x", 50_000)
	for _, mode := range []modev3.ProcessingMode_BodySendMode{modev3.ProcessingMode_STREAMED, modev3.ProcessingMode_FULL_DUPLEX_STREAMED} {
		stream := process(t, t.Context(), conn, modes(mode), ":path", "/", ":method", "POST")
		var sent atomic.Int64
		go func() {
			for n := range parts {
				if stream.Send(requestBody(text, n == parts-1)) != nil {
					return
				}
				sent.Add(1)
			}
		}()
		got, answers := 0, 0
		for done := false; !done; {
			m := hear(t, stream)
			if m.GetRequestBody() == nil {
				continue
			}
			answers++
			if s := m.GetRequestBody().GetResponse().GetBodyMutation().GetStreamedResponse(); s != nil {
				got += len(s.GetBody())
				done = s.GetEndOfStream()
			} else {
				got += len(text)
				done = answers == parts
			}
		}
		if got != parts*len(text) || sent.Load() < parts {
			t.Errorf("%v: %d bytes passed", mode, got)
		}
		if err := stream.CloseSend(); err != nil {
			t.Fatal(err)
		}
		<-g.answered
	}
}

// Who asks hears the answer before its own deadline, and the request is as it came.
func TestAuthorizationsAreAnsweredInTime(t *testing.T) {
	t.Parallel()
	conn, g := serveRPC(t, 64<<20)
	asked := &authv3.CheckRequest{Attributes: &authv3.AttributeContext{Request: &authv3.AttributeContext_Request{Http: &authv3.AttributeContext_HttpRequest{
		Method: "PUT", Path: "/wait?q=1", Host: "h", RawBody: []byte("hello"), Headers: map[string]string{":path": "/wait", "x-a": "b", access.Header: "k"},
	}}}}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
	defer cancel()
	res, err := authv3.NewAuthorizationClient(conn).Check(ctx, asked)
	if err != nil || res.GetDeniedResponse().GetStatus().GetCode() != http.StatusServiceUnavailable {
		t.Errorf("%v, %v", res, err)
	}
	r := <-g.decided
	if got := r.Method + r.RequestURI + r.Host + r.Header.Get("X-A") + r.Header.Get(access.Header); got != "PUT/wait?q=1hbk" || r.ContentLength != 5 {
		t.Errorf("%s, %d bytes", got, r.ContentLength)
	}
	if _, err := authv3.NewAuthorizationClient(conn).Check(t.Context(), &authv3.CheckRequest{}); status.Code(err) != codes.InvalidArgument {
		t.Errorf("without a request: %v", err)
	}
}

// A call at a time when the server stops is finished.
func TestCallsInFlightAreFinished(t *testing.T) {
	t.Parallel()
	g := &gateway{bodies: intake.NewBodies(64<<20, prometheus.NewRegistry()), answered: make(chan string, 1), left: make(chan error, 1)}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	done, draining := make(chan error, 1), make(chan struct{})
	go func() {
		done <- serve.Until(ctx, listener, serve.Config{
			Handler: New(Config{Gateway: g, MaxBytes: maxBytes, Bodies: g.bodies}), Log: slog.New(slog.DiscardHandler), RPC: true, Draining: func() { close(draining) }, Grace: time.Minute,
		})
	}()
	conn, err := grpc.NewClient(listener.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	stream := process(t, t.Context(), conn, bufferedModes, ":path", "/stop", ":method", "POST")
	hear(t, stream)
	stop()
	<-draining
	say(t, stream, requestBody("hello", true))
	if m := hear(t, stream); m.GetImmediateResponse().GetStatus().GetCode() != 429 {
		t.Errorf("%v", m)
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// withKey returns a context whose calls have a key of their own.
func withKey(ctx context.Context) context.Context {
	return metadata.AppendToOutgoingContext(ctx, access.Header, "another key")
}

// A status that is no number counts as none, also one that has too many digits.
func TestAStatusThatIsNoNumberIsNone(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]int{"201": 201, "": 0, "fine": 0, "99999999999999999999": 0} {
		if got := describe(responseHeaders(text).GetResponseHeaders().GetHeaders()).status; got != want {
			t.Errorf("%q: %d, want %d", text, got, want)
		}
	}
}
