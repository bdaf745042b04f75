package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	modev3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/ext_proc/v3"
	authv3 "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	procv3 "github.com/envoyproxy/go-control-plane/envoy/service/ext_proc/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/unloop/unloop/deploy/unloop/system"
	"github.com/unloop/unloop/schemas/extmcppb"
)

// overRPC has the gateway listen for callers of gRPC.
func overRPC(cfg *system.Config) { cfg.Gateway.BesideListen = system.FreePort }

// dialRPC returns a connection to where other gateways ask over gRPC.
func dialRPC(t *testing.T, s *system.System) *grpc.ClientConn {
	t.Helper()
	conn, err := grpc.NewClient(s.BesideAddr(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

func headerMap(pairs ...string) *corev3.HeaderMap {
	m := &corev3.HeaderMap{}
	for i := 0; i < len(pairs); i += 2 {
		m.Headers = append(m.Headers, &corev3.HeaderValue{Key: pairs[i], RawValue: []byte(pairs[i+1])})
	}
	return m
}

// envoyMode is a processing mode of Envoy's filter.
type envoyMode = modev3.ProcessingMode_BodySendMode

const (
	buffered = modev3.ProcessingMode_BUFFERED
	chunks   = modev3.ProcessingMode_STREAMED
	partial  = modev3.ProcessingMode_BUFFERED_PARTIAL
	duplex   = modev3.ProcessingMode_FULL_DUPLEX_STREAMED
)

// envoy is what Envoy's filter does with one request: it obeys the messages, and has the
// upstream answer.
type envoy struct {
	t      *testing.T
	stream procv3.ExternalProcessor_ProcessClient
	mode   envoyMode
}

// passed is what came of a request that passed Envoy.
type passed struct {
	// stop is the immediate response; nil if the upstream got the request, with body and headers.
	stop    *procv3.ImmediateResponse
	body    string
	headers map[string]string
	removed []string
	// marks are the headers that the answer gets.
	marks map[string]string
}

func (e *envoy) send(m *procv3.ProcessingRequest) {
	if err := e.stream.Send(m); err != nil && !errors.Is(err, io.EOF) {
		e.t.Fatal(err)
	}
}

func (e *envoy) receive() *procv3.ProcessingResponse {
	m, err := e.stream.Recv()
	if err != nil {
		e.t.Fatalf("receive: %v", err)
	}
	return m
}

// newEnvoy opens a stream for a request.
func newEnvoy(t *testing.T, conn *grpc.ClientConn, mode envoyMode, pairs ...string) *envoy {
	t.Helper()
	stream, err := procv3.NewExternalProcessorClient(conn).Process(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	e := &envoy{t, stream, mode}
	e.send(&procv3.ProcessingRequest{
		Request:        &procv3.ProcessingRequest_RequestHeaders{RequestHeaders: &procv3.HttpHeaders{Headers: headerMap(pairs...)}},
		ProtocolConfig: &procv3.ProtocolConfiguration{RequestBodyMode: mode, ResponseBodyMode: mode},
	})
	return e
}

// note keeps what a response changes of the request.
func (p *passed) note(r *procv3.CommonResponse) {
	for _, h := range r.GetHeaderMutation().GetSetHeaders() {
		p.headers[h.GetHeader().GetKey()] = string(h.GetHeader().GetRawValue())
	}
	p.removed = append(p.removed, r.GetHeaderMutation().GetRemoveHeaders()...)
}

// upload sends a body in Envoy's way, and returns what the upstream gets.
func (e *envoy) upload(body string) (p passed) {
	p.headers = map[string]string{}
	if e.mode != duplex {
		p.note(e.receive().GetRequestHeaders().GetResponse())
	}
	parts := []string{body}
	if e.mode == chunks || e.mode == duplex {
		parts = []string{body[:len(body)/2], body[len(body)/2:]}
	}
	for i, part := range parts {
		e.send(&procv3.ProcessingRequest{Request: &procv3.ProcessingRequest_RequestBody{RequestBody: &procv3.HttpBody{Body: []byte(part), EndOfStream: i == len(parts)-1}}})
	}
	for i := 0; ; i++ {
		m := e.receive()
		if p.stop = m.GetImmediateResponse(); p.stop != nil {
			return p
		}
		if m.GetRequestHeaders() != nil {
			p.note(m.GetRequestHeaders().GetResponse())
			continue
		}
		r := m.GetRequestBody().GetResponse()
		p.note(r)
		switch c := r.GetBodyMutation().GetMutation().(type) {
		case nil:
			p.body += parts[i]
		case *procv3.BodyMutation_Body:
			p.body += string(c.Body)
		case *procv3.BodyMutation_StreamedResponse:
			p.body += string(c.StreamedResponse.GetBody())
			if c.StreamedResponse.GetEndOfStream() {
				return p
			}
			continue
		}
		if i == len(parts)-1 && e.mode != duplex {
			return p
		}
	}
}

// answer has the upstream answer, and returns the headers that the client gets.
func (e *envoy) answer(status int, kind, body string) map[string]string {
	e.send(&procv3.ProcessingRequest{Request: &procv3.ProcessingRequest_ResponseHeaders{ResponseHeaders: &procv3.HttpHeaders{
		Headers: headerMap(":status", strconv.Itoa(status), "content-type", kind, "x-loop-id", "forged"),
	}}})
	headers := e.receive().GetResponseHeaders().GetResponse()
	marks := map[string]string{}
	for _, h := range headers.GetHeaderMutation().GetSetHeaders() {
		marks[h.GetHeader().GetKey()] = string(h.GetHeader().GetRawValue())
	}
	if _, set := marks["x-loop-id"]; !set && !strings.Contains(strings.Join(headers.GetHeaderMutation().GetRemoveHeaders(), " "), "x-loop-id") {
		e.t.Error("a forged header stays")
	}
	e.send(&procv3.ProcessingRequest{Request: &procv3.ProcessingRequest_ResponseBody{ResponseBody: &procv3.HttpBody{Body: []byte(body), EndOfStream: true}}})
	got := e.receive().GetResponseBody().GetResponse().GetBodyMutation().GetStreamedResponse()
	if e.mode == duplex && (string(got.GetBody()) != body || !got.GetEndOfStream()) {
		e.t.Errorf("the answer became %q", got.GetBody())
	}
	if err := e.stream.CloseSend(); err != nil {
		e.t.Error(err)
	}
	if _, err := e.stream.Recv(); !errors.Is(err, io.EOF) {
		e.t.Errorf("the end of the stream: %v", err)
	}
	return marks
}

const chatAnswer = `{"id":"c","choices":[{"message":{"role":"assistant","content":"Hello."}}],"usage":{"prompt_tokens":4,"completion_tokens":2}}`

// through sends a prompt through Envoy to an upstream that answers it.
func through(t *testing.T, conn *grpc.ClientConn, mode envoyMode, path, body string, pairs ...string) passed {
	t.Helper()
	e := newEnvoy(t, conn, mode, append([]string{
		":method", "POST", ":path", path, ":authority", "llm.example", "content-type", "application/json", "content-length", strconv.Itoa(len(body)),
	}, pairs...)...)
	p := e.upload(body)
	if p.stop == nil {
		p.marks = e.answer(http.StatusOK, "application/json", chatAnswer)
	}
	return p
}

func rounds(n int) string {
	all := []string{`{"role":"user","content":"How is the weather?"}`}
	for i := range n {
		all = append(all, fmt.Sprintf(`{"role":"assistant","content":null,"tool_calls":[{"id":"c%d","type":"function","function":{"name":"weather","arguments":"{}"}}]}`, i),
			fmt.Sprintf(`{"role":"tool","tool_call_id":"c%d","content":"It is sunny in all of the country."}`, i))
	}
	return `{"model":"m","messages":[` + strings.Join(all, ",") + `]}`
}

// A loop that passes Envoy is hinted in its body, and stopped in the format of its path.
func TestEnvoyObeysInEachModeOfItsBodies(t *testing.T) {
	t.Parallel()
	conn := dialRPC(t, start(t, echo(t), overRPC))
	for name, mode := range map[string]envoyMode{"buffered": buffered, "partial": partial, "streamed": chunks, "duplex": duplex} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			session := []string{"x-session-id", name, "authorization", "Bearer " + name, "x-unloop-key", "mine"}
			for n := 1; n <= 5; n++ {
				body := rounds(n)
				p := through(t, conn, mode, "/v1/chat/completions", body, session...)
				switch {
				case n < 3 && (p.stop != nil || p.body != body || p.marks["x-loop-action"] != ""):
					t.Errorf("round %d: %+v", n, p)
				case n == 3 || n == 4:
					length := p.headers["content-length"]
					if p.stop != nil || !strings.HasSuffix(p.body, strings.TrimPrefix(body, `{"model":"m","messages":[`)) || !strings.Contains(p.body, "The tool weather was called") || p.marks["x-loop-action"] != "hint" || mode != chunks && length != strconv.Itoa(len(p.body)) {
						t.Errorf("round %d: %+v, %s", n, p, p.stop)
					}
				case n == 5:
					if p.stop == nil || p.stop.GetStatus().GetCode() != 429 || !strings.Contains(string(p.stop.GetBody()), `"code":"recursive_loop_detected"`) {
						t.Errorf("round %d: %+v", n, p)
					}
				}
				if n < 5 && !strings.Contains(strings.Join(p.removed, " "), "x-unloop-key") {
					t.Errorf("round %d: Unloop's key goes on", n)
				}
			}
		})
	}
}

// Errors have the shape of the request's format, and a rejected agent gets an answer in the
// model's place where that ends it.
func TestEnvoyAnswersInTheFormatOfThePath(t *testing.T) {
	t.Parallel()
	conn := dialRPC(t, start(t, echo(t), overRPC, func(cfg *system.Config) { cfg.Gateway.Reject = "synthetic" }))
	for path, want := range map[string]string{
		"/v1/chat/completions": `"role":"assistant"`, "/v1/messages": `"type":"message"`, "/prefix/v1/responses": `"object":"response"`,
	} {
		t.Run(path, func(t *testing.T) {
			t.Parallel()
			body := `{"model":"m","max_tokens":1,"messages":[{"role":"user","content":"Again at ` + path + `"}]}`
			if strings.HasSuffix(path, "responses") {
				body = `{"model":"m","input":"Again at ` + path + `"}`
			}
			var p passed
			for range 6 {
				p = through(t, conn, buffered, path, body, "x-session-id", path)
			}
			if p.stop == nil || p.stop.GetStatus().GetCode() != 200 || !strings.Contains(string(p.stop.GetBody()), want) {
				t.Errorf("%+v", p)
			}
		})
	}
}

// A prompt whose answers are errors does not count.
func TestEnvoyShowsAnswersThatFailed(t *testing.T) {
	t.Parallel()
	conn := dialRPC(t, start(t, echo(t), overRPC))
	const body = `{"model":"m","messages":[{"role":"user","content":"Once more, please."}]}`
	for n := range 8 {
		e := newEnvoy(t, conn, buffered, ":method", "POST", ":path", "/v1/chat/completions", "x-session-id", "failing")
		if p := e.upload(body); p.stop != nil {
			t.Fatalf("request %d is stopped: %s", n, p.stop.GetBody())
		}
		e.answer(http.StatusServiceUnavailable, "application/json", `{"error":{"message":"overloaded"}}`)
	}
}

// authorization asks as Envoy's ext_authz does.
func authorization(t *testing.T, conn *grpc.ClientConn, ctx context.Context, path, body string, headers map[string]string) *authv3.CheckResponse { //nolint:revive // the test comes first
	t.Helper()
	res, err := authv3.NewAuthorizationClient(conn).Check(ctx, &authv3.CheckRequest{Attributes: &authv3.AttributeContext{
		Request: &authv3.AttributeContext_Request{Http: &authv3.AttributeContext_HttpRequest{Method: "POST", Path: path, Host: "llm.example", Headers: headers, Body: body}},
	}})
	if err != nil {
		t.Fatal(err)
	}
	return res
}

func TestEnvoysAuthorizationIsDeniedInTheFormatOfThePath(t *testing.T) {
	t.Parallel()
	s := start(t, echo(t), overRPC)
	conn := dialRPC(t, s)
	const body = `{"model":"m","max_tokens":1,"messages":[{"role":"user","content":"And again."}]}`
	session := map[string]string{"x-session-id": "authz", "x-unloop-key": "mine"}
	for range 3 {
		res := authorization(t, conn, t.Context(), "/v1/messages", body, session)
		if res.GetStatus().GetCode() != 0 || len(res.GetOkResponse().GetHeadersToRemove()) != 1 {
			t.Errorf("allowed: %v", res)
		}
	}
	for range 2 { // the same over HTTP
		got := send(t, s.URL(), call{method: http.MethodPost, path: besidePath + "envoy/v1/messages", body: body, header: http.Header{"X-Session-Id": {"authz"}}})
		if got.status != http.StatusOK {
			t.Errorf("over HTTP: %d %s", got.status, got.body)
		}
	}
	denied := authorization(t, conn, t.Context(), "/v1/messages", body, session).GetDeniedResponse()
	if denied.GetStatus().GetCode() != 429 || !strings.Contains(denied.GetBody(), `{"type":"error","error":{"type":"rate_limit_error"`) {
		t.Errorf("denied: %v", denied)
	}
	got := send(t, s.URL(), call{method: http.MethodPost, path: besidePath + "envoy/v1/messages", body: body, header: http.Header{"X-Session-Id": {"authz"}}})
	if got.status != http.StatusTooManyRequests || !strings.Contains(string(got.body), `"loop_id"`) {
		t.Errorf("over HTTP: %d %s", got.status, got.body)
	}
}

// agentgateway is a client of its protocol, as one session.
type agentgateway struct {
	t       *testing.T
	conn    *grpc.ClientConn
	session string
}

func (a agentgateway) request(method, params string) *extmcppb.McpRequestResult {
	a.t.Helper()
	var res extmcppb.McpRequestResult
	err := a.conn.Invoke(a.t.Context(), "/agentgateway.dev.ext_mcp.ExtMcp/CheckRequest", &extmcppb.McpRequest{
		ServiceNames: []string{"search"}, Method: method, McpRequest: []byte(params),
		Headers: []*extmcppb.McpHeader{{Key: ":method", Value: []byte("POST")}, {Key: "x-session-id", Value: []byte(a.session)}, {Key: "x-unloop-key", Value: []byte(aliceKey)}},
	}, &res)
	if err != nil {
		a.t.Fatal(err)
	}
	return &res
}

// response reports the result of the call searchAgain.
func (a agentgateway) response(result string) *extmcppb.McpResponseResult {
	a.t.Helper()
	about, err := structpb.NewStruct(map[string]any{"session": a.session, "key": aliceKey, "tool": "search", "arguments": map[string]any{"q": "again"}})
	if err != nil {
		a.t.Fatal(err)
	}
	var res extmcppb.McpResponseResult
	err = a.conn.Invoke(a.t.Context(), "/agentgateway.dev.ext_mcp.ExtMcp/CheckResponse", &extmcppb.McpResponse{
		ServiceNames: []string{"search"}, Method: "tools/call", MetadataContext: about, McpResponse: []byte(result),
	}, &res)
	if err != nil {
		a.t.Fatal(err)
	}
	return &res
}

const searchAgain = `{"name":"search","arguments":{"q":"again"}}`

// agentgateway's calls are stopped, results that differ are not: also where both need a key.
func TestAgentgatewaysCallsAreStopped(t *testing.T) {
	t.Parallel()
	conn := dialRPC(t, start(t, echo(t), overRPC, guarded(t)))
	still := agentgateway{t, conn, "s"}
	for n := 1; n <= 4; n++ {
		if res := still.request("tools/call", searchAgain); res.GetPass() == nil {
			t.Errorf("call %d: %v", n, res)
		}
	}
	refused := still.request("tools/call", searchAgain).GetError()
	var data struct {
		Code   string
		LoopID string `json:"loop_id"`
	}
	if err := json.Unmarshal(refused.GetMcpError(), &data); err != nil || refused.GetCode() != extmcppb.AuthorizationError_RESOURCE_EXHAUSTED || data.Code != "recursive_loop_detected" || data.LoopID == "" || !strings.Contains(refused.GetReason(), "search") {
		t.Errorf("the fifth: %v", refused)
	}
	if res := still.request("tools/list", `{}`); res.GetPass() == nil {
		t.Errorf("a list: %v", res)
	}
	if res := still.request("tools/call", `[`); res.GetError().GetCode() != extmcppb.AuthorizationError_INVALID {
		t.Errorf("malformed: %v", res)
	}
	moving := agentgateway{t, conn, "moving"}
	for n := range 7 {
		if res := moving.request("tools/call", searchAgain); res.GetPass() == nil {
			t.Errorf("call %d with other results: %v", n, res)
		}
		res := moving.response(fmt.Sprintf(`{"content":[{"type":"text","text":"Page %d of the results is about %s."}]}`, n, strings.Repeat("x", n)))
		if res.GetPass() == nil {
			t.Errorf("result %d: %v", n, res)
		}
	}
}

// A result that repeats itself gets a hint behind its content, and keeps the rest. It is the last
// message of its answer, however the server sends that.
func TestAgentgatewaysResultsAreHinted(t *testing.T) {
	t.Parallel()
	a := agentgateway{t, dialRPC(t, start(t, echo(t), overRPC)), "s"}
	const result = `{"resultType":"complete","content":[{"type":"text","text":"Nothing."}],"structuredContent":{"n":12345678901234567890},"_meta":{"a":"<b>"}}`
	for n := 1; n <= 4; n++ {
		a.request("tools/call", searchAgain)
		res := a.response(result)
		if n < 3 {
			if res.GetPass() == nil {
				t.Errorf("result %d: %v", n, res)
			}
			continue
		}
		var got struct {
			Content    []struct{ Type, Text string }
			Structured json.RawMessage   `json:"structuredContent"`
			Meta       map[string]string `json:"_meta"`
		}
		if err := json.Unmarshal(res.GetMutated(), &got); err != nil {
			t.Fatalf("result %d: %v, %v", n, res, err)
		}
		if len(got.Content) != 2 || got.Content[0].Text != "Nothing." || got.Content[1].Type != "text" || !strings.Contains(got.Content[1].Text, fmt.Sprintf("search was called %d times", n)) ||
			string(got.Structured) != `{"n":12345678901234567890}` || got.Meta["a"] != "<b>" {
			t.Errorf("result %d: %s", n, res.GetMutated())
		}
	}
	if res := a.request("tools/call", searchAgain); res.GetError() == nil {
		t.Errorf("the fifth call: %v", res)
	}
}

// A server that asks for input, or answers later, has the same call made again.
func TestAgentgatewaysCallsGoOnWithInput(t *testing.T) {
	t.Parallel()
	a := agentgateway{t, dialRPC(t, start(t, echo(t), overRPC)), "s"}
	for n, result := range []string{`{"resultType":"input_required","requestState":"x"}`, `{"resultType":"task","taskId":"t"}`, `{"task":{"taskId":"t"}}`} {
		a.request("tools/call", searchAgain)
		for range 6 {
			if res := a.response(result); res.GetPass() == nil {
				t.Errorf("%s: %v", result, res)
			}
			for _, more := range []string{`"inputResponses":{"a":{}}`, `"requestState":"x"`} {
				if res := a.request("tools/call", searchAgain[:len(searchAgain)-1]+","+more+"}"); res.GetPass() == nil {
					t.Errorf("it goes on: %v", res)
				}
			}
		}
		if res := a.response(fmt.Sprintf(`{"content":[{"type":"text","text":"Page %d."}]}`, n)); res.GetPass() == nil {
			t.Errorf("its result: %v", res)
		}
	}
}

// With --auth, callers of gRPC send a key in their metadata or in the request's headers.
func TestCallersOfRPCNeedAKey(t *testing.T) {
	t.Parallel()
	conn := dialRPC(t, start(t, echo(t), overRPC, guarded(t)))
	const body = `{"model":"m","messages":[{"role":"user","content":"Hello."}]}`
	if p := through(t, conn, buffered, "/v1/chat/completions", body); p.stop.GetStatus().GetCode() != 401 || !strings.Contains(string(p.stop.GetBody()), "unloop_key_missing") {
		t.Errorf("without a key: %+v", p)
	}
	if p := through(t, conn, duplex, "/v1/chat/completions", body, "x-unloop-key", aliceKey); p.stop != nil {
		t.Errorf("with a key: %s", p.stop.GetBody())
	}
	if res := authorization(t, conn, t.Context(), "/v1/chat/completions", body, nil); res.GetStatus().GetCode() != int32(codes.Unauthenticated) || res.GetDeniedResponse().GetStatus().GetCode() != 401 {
		t.Errorf("without a key: %v", res)
	}
	ctx := metadata.AppendToOutgoingContext(t.Context(), "x-unloop-key", aliceKey)
	if res := authorization(t, conn, ctx, "/v1/chat/completions", body, nil); res.GetStatus().GetCode() != 0 {
		t.Errorf("with a key: %v", res)
	}
	var res extmcppb.McpRequestResult
	if err := conn.Invoke(t.Context(), "/agentgateway.dev.ext_mcp.ExtMcp/CheckRequest", &extmcppb.McpRequest{Method: "tools/call", McpRequest: []byte(`{"name":"x"}`)}, &res); err != nil || res.GetError().GetCode() != extmcppb.AuthorizationError_PERMISSION_DENIED {
		t.Errorf("without a key: %v, %v", &res, err)
	}
}

// A loop that begins behind Envoy and goes on at the gateway itself is one incident.
func TestALoopThroughEnvoyAndTheGatewayIsOneIncident(t *testing.T) {
	t.Parallel()
	s := start(t, echo(t), overRPC)
	conn := dialRPC(t, s)
	const body = `{"model":"m","messages":[{"role":"user","content":"And again."}]}`
	for range 5 {
		if p := through(t, conn, duplex, "/v1/chat/completions", body, "x-session-id", "run-1", "authorization", "Bearer sk-one"); p.stop != nil {
			t.Fatalf("stopped: %s", p.stop.GetBody())
		}
	}
	direct := send(t, s.URL(), call{method: http.MethodPost, path: "/v1/chat/completions", body: body, header: http.Header{"X-Session-Id": {"run-1"}, "Authorization": {"Bearer sk-one"}}})
	var refused, again struct{ Detail loopDetail }
	if direct.status != http.StatusTooManyRequests || direct.header.Get("X-Loop-Count") != "6" || json.Unmarshal(direct.body, &refused) != nil {
		t.Fatalf("the sixth: %d %v", direct.status, direct.header)
	}
	p := through(t, conn, buffered, "/v1/chat/completions", body, "x-session-id", "run-1", "authorization", "Bearer sk-one")
	if err := json.Unmarshal(p.stop.GetBody(), &again); err != nil || again.Detail.LoopID != refused.Detail.LoopID || again.Detail.LoopID == "" {
		t.Errorf("loop %q, then %q, %v", refused.Detail.LoopID, again.Detail.LoopID, err)
	}
}
