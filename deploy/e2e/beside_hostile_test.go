package e2e

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	authv3 "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	procv3 "github.com/envoyproxy/go-control-plane/envoy/service/ext_proc/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/unloop/unloop/deploy/unloop/system"
	"github.com/unloop/unloop/schemas/extmcppb"
)

// callout is a place at which other gateways ask, over HTTP or gRPC.
type callout struct {
	rpc bool
	// path is where it is asked, with the headers of its protocol.
	path   string
	header http.Header
	// question returns a question about a text.
	question func(text string) string
	// malformed, oversized and cut are the answers to such questions: the status of HTTP, or that
	// of gRPC, and what the answer says.
	malformed, oversized, cut refusalOf
}

// refusalOf is a status and a part of an answer.
type refusalOf struct {
	status int
	says   string
}

// shaped are the refusals of a callout over HTTP, whose answers say so; with 200 it asks for no
// JSON.
func shaped(malformed int, says string) callout {
	c := callout{malformed: refusalOf{malformed, says}, oversized: refusalOf{413, says}, cut: refusalOf{400, says}}
	if malformed < 300 {
		c.malformed.says = ""
	}
	return c
}

// inChat is a callout that sends its client's own request.
func inChat(name string) callout {
	c := shaped(200, `{"error":{"message":"`)
	c.oversized = refusalOf{200, ""} // as at the gateway itself, it passes without being inspected
	c.path, c.header = name, http.Header{"X-Forwarded-Uri": {"/v1/chat/completions"}, "X-Forwarded-Method": {"POST"}}
	c.question = func(text string) string { return `{"model":"m","messages":` + userSays(text) + `}` }
	return c
}

func userSays(text string) string { return fmt.Sprintf(`[{"role":"user","content":%q}]`, text) }

// overHTTP is a callout with a body of its own.
func overHTTP(path, says, question string) callout {
	c := shaped(400, says)
	c.path = path
	c.question = func(text string) string {
		return strings.NewReplacer("MESSAGES", userSays(text), "TEXT", strconv.Quote(text)).Replace(question)
	}
	return c
}

// framed is a callout over gRPC.
func framed(path string, question func(text string) proto.Message) callout {
	return callout{
		rpc: true, path: path, header: http.Header{"Te": {"trailers"}},
		question: func(text string) string {
			message, err := proto.Marshal(question(text))
			if err != nil {
				panic(err)
			}
			return frame(len(message), string(message))
		},
		malformed: refusalOf{3, "unmarshal"}, oversized: refusalOf{8, "--max-inspect-bytes"}, cut: refusalOf{13, "promised 100 bytes"},
	}
}

// frame returns a message of gRPC that is announced to have a size.
func frame(size int, message string) string {
	return string(binary.BigEndian.AppendUint32([]byte{0}, uint32(size))) + message //nolint:gosec // sizes of tests are small
}

// callouts has a line for each place; TestNoCalloutIsLeftOut says that it has all.
func callouts() map[string]callout {
	nginx, envoyHTTP := shaped(204, ""), inChat("envoy")
	nginx.path, nginx.question = "nginx", func(string) string { return "" }
	nginx.header = http.Header{"X-Session-Id": {"s"}}
	envoyHTTP.path, envoyHTTP.header = "envoy/v1/chat/completions", nil
	all := map[string]callout{
		"litellm":      overHTTP("litellm/beta/litellm_basic_guardrail_api", `{"error":{"message":"`, `{"input_type":"request","model":"m","structured_messages":MESSAGES}`),
		"portkey":      overHTTP("portkey", `"verdict":true`, `{"eventType":"beforeRequestHook","requestType":"chatComplete","request":{"json":{"model":"m","messages":MESSAGES}}}`),
		"agentgateway": overHTTP("agentgateway/request", `{"action":{"body":"`, `{"body":{"messages":MESSAGES}}`),
		"anthropic":    overHTTP("anthropic", `{"type":"error","error":{"type":"`, `{"type":"prompt","model":"m","messages":[{"role":"user","content":[{"type":"text","text":TEXT}]}]}`),
		"docker":       overHTTP("docker", `"isError":true`, `{"params":{"name":"search","arguments":{"q":MESSAGES}}}`),
		"nginx":        nginx, "envoy": envoyHTTP, "traefik": inChat("traefik"), "kong": inChat("kong"), "bifrost": inChat("bifrost"),
		"ext_proc": framed("/envoy.service.ext_proc.v3.ExternalProcessor/Process", func(text string) proto.Message {
			return &procv3.ProcessingRequest{Request: &procv3.ProcessingRequest_RequestHeaders{RequestHeaders: &procv3.HttpHeaders{EndOfStream: true, Headers: headerMap(":path", "/v1/models", ":method", "GET", "x-text", text)}}}
		}),
		"ext_authz": framed("/envoy.service.auth.v3.Authorization/Check", func(text string) proto.Message {
			return &authv3.CheckRequest{Attributes: &authv3.AttributeContext{Request: &authv3.AttributeContext_Request{Http: &authv3.AttributeContext_HttpRequest{
				Method: "POST", Path: "/v1/chat/completions", Body: `{"model":"m","messages":` + userSays(text) + `}`,
			}}}}
		}),
		"ExtMcp": framed("/agentgateway.dev.ext_mcp.ExtMcp/CheckRequest", func(text string) proto.Message {
			return &extmcppb.McpRequest{Method: "tools/call", McpRequest: fmt.Appendf(nil, `{"name":"search","arguments":{"q":%q}}`, text)}
		}),
		"ExtMcp results": framed("/agentgateway.dev.ext_mcp.ExtMcp/CheckResponse", func(text string) proto.Message {
			about := &structpb.Struct{Fields: map[string]*structpb.Value{"tool": structpb.NewStringValue("search"), "arguments": structpb.NewStringValue("{}")}}
			return &extmcppb.McpResponse{Method: "tools/call", MetadataContext: about, McpResponse: fmt.Appendf(nil, `{"content":[{"type":"text","text":%q}]}`, text)}
		}),
	}
	return all
}

// besides are a system that is asked, and a client of each protocol.
type besides struct {
	s      *system.System
	plain  *http.Client
	framed *http.Client
}

func startBesides(t *testing.T, edits ...func(*system.Config)) *besides {
	t.Helper()
	s := start(t, echo(t), append(edits, overRPC, signedHooks(t))...)
	h2 := &http.Transport{Protocols: new(http.Protocols)}
	h2.Protocols.SetUnencryptedHTTP2(true)
	h1 := &http.Transport{MaxIdleConnsPerHost: 64}
	t.Cleanup(func() { h2.CloseIdleConnections(); h1.CloseIdleConnections() })
	return &besides{s: s, plain: &http.Client{Transport: h1}, framed: &http.Client{Transport: h2}}
}

// send sends a body to a callout as a caller, and returns the status of its protocol and its answer.
func (b *besides) send(t *testing.T, c callout, who string, body io.Reader) (status int, says string, err error) {
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, b.s.URL()+besidePath+c.path, body)
	client := b.plain
	if c.rpc {
		r, err = http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+b.s.BesideAddr()+c.path, body)
		client = b.framed
	}
	if err != nil {
		return 0, "", err
	}
	if r.Header = c.header.Clone(); r.Header == nil {
		r.Header = http.Header{}
	}
	r.Header.Set("Authorization", "Bearer "+who)
	r.Header.Set("Content-Type", "application/json")
	if c.rpc {
		r.Header.Set("Content-Type", "application/grpc")
		r.Header.Set("X-Unloop-Key", who)
	}
	if text, whole := body.(*strings.Reader); whole && c.path == "anthropic" {
		signed := make([]byte, text.Len())
		_, _ = text.ReadAt(signed, 0) // which never fails
		signHook(t, r.Header, string(signed))
	}
	res, err := client.Do(r)
	if err != nil {
		return 0, "", err
	}
	defer func() { _ = res.Body.Close() }()
	text, err := io.ReadAll(res.Body)
	if !c.rpc {
		return res.StatusCode, string(text), err
	}
	_, _ = fmt.Sscan(res.Header.Get("Grpc-Status")+res.Trailer.Get("Grpc-Status"), &status)
	return status, res.Header.Get("Grpc-Message") + res.Trailer.Get("Grpc-Message"), err
}

// Every name that the gateway knows, and every method that its listener for gRPC has, is in the table.
func TestNoCalloutIsLeftOut(t *testing.T) {
	t.Parallel()
	b := startBesides(t)
	answer := send(t, b.s.URL(), call{method: http.MethodPost, path: besidePath + "x"})
	var unknown struct{ Error struct{ Message string } }
	if err := json.Unmarshal(answer.body, &unknown); err != nil {
		t.Fatal(err)
	}
	_, names, _ := strings.Cut(unknown.Error.Message, ": ")
	all := callouts()
	for name := range strings.SplitSeq(names, ", ") {
		if _, found := all[name]; !found {
			t.Errorf("nobody is hostile to %s", name)
		}
	}
	if n := strings.Count(names, ", ") + 1 + 4; len(all) != n {
		t.Errorf("%d callouts, want %d: those of HTTP and four methods of gRPC", len(all), n)
	}
}

// What is no question, too large, or breaks off gets an error of its own protocol, and the next
// question on the same connection is answered.
func TestCalloutsRefuseInTheirOwnProtocol(t *testing.T) {
	t.Parallel()
	b := startBesides(t)
	for name, c := range callouts() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			malformed, oversized := "{", strings.Repeat("x", 9<<20)
			if c.rpc {
				malformed, oversized = frame(1, "\xff"), frame(9<<20, "")
			}
			for what, q := range map[string]struct {
				body string
				want refusalOf
			}{"malformed": {malformed, c.malformed}, "oversized": {oversized, c.oversized}} {
				if status, says, err := b.send(t, c, name, strings.NewReader(q.body)); err != nil || status != q.want.status || !strings.Contains(says, q.want.says) {
					t.Errorf("%s: %d %.200s %v, want %d with %q", what, status, says, err, q.want.status, q.want.says)
				}
			}
			if status, says := b.halfClosed(t, c, name); status != c.cut.status || !strings.Contains(says, c.cut.says) {
				t.Errorf("cut off: %d %.200s, want %d with %q", status, says, c.cut.status, c.cut.says)
			}
			if status, says, err := b.send(t, c, name, strings.NewReader(c.question("hello"))); err != nil || status/100 != map[bool]int{false: 2, true: 0}[c.rpc] {
				t.Errorf("afterwards: %d %s %v", status, says, err)
			}
		})
	}
}

// halfClosed sends the beginning of a question and ends what it sends.
func (b *besides) halfClosed(t *testing.T, c callout, who string) (status int, says string) {
	t.Helper()
	if c.rpc {
		status, says, err := b.send(t, c, who, strings.NewReader(frame(100, "half")))
		if err != nil {
			t.Fatal(err)
		}
		return status, says
	}
	conn, err := net.Dial("tcp", strings.TrimPrefix(b.s.URL(), "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	head := fmt.Sprintf("POST %s%s HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: 1000\r\n", besidePath, c.path)
	for name, values := range c.header {
		head += name + ": " + values[0] + "\r\n"
	}
	if _, err := io.WriteString(conn, head+"\r\n{\"half"); err != nil {
		t.Fatal(err)
	}
	if err := conn.(*net.TCPConn).CloseWrite(); err != nil {
		t.Fatal(err)
	}
	answer, err := io.ReadAll(conn)
	if err != nil {
		t.Fatal(err)
	}
	_, _ = fmt.Sscanf(string(answer), "HTTP/1.1 %d", &status)
	return status, string(answer)
}

// Callers that stall in the middle of a question, by the dozen, and one that floods a callout with
// large ones cost another caller nothing: each of its questions is answered, in turn, while the
// memory stays within its bound.
func TestHostileCallersOfACalloutCostNobodyElse(t *testing.T) {
	t.Parallel()
	const bound, connections, honest = 64 << 20, 20, 6
	b := startBesides(t, memory(bound))
	for name, c := range callouts() {
		if name == "kong" || name == "bifrost" || name == "envoy" {
			continue // they are asked as traefik is
		}
		for range 30 {
			b.stall(t, c)
		}
		begun, stop := make(chan struct{}), make(chan struct{})
		flood := b.flood(t, c, connections, begun, stop)
		<-begun
		took, ahead := make([]time.Duration, honest), int64(math.MaxInt64)
		for i := range took {
			began, before := time.Now(), flood.answered.Load()
			if status, says, err := b.send(t, c, "honest", strings.NewReader(c.question(fmt.Sprint("question ", i)))); err != nil || status > 204 {
				t.Errorf("%s: question %d: %d %s %v", name, i, status, says, err)
			}
			took[i], ahead = time.Since(began), min(ahead, flood.answered.Load()-before)
		}
		close(stop)
		flood.Wait()
		slices.Sort(took)
		t.Logf("%s: p50 %v; at the least %d of the flood were answered meanwhile", name, took[honest/2], ahead)
		// In the order of arrival each question would wait for one of all connections.
		if large := c.question("x") != ""; large && ahead > connections/3 {
			t.Errorf("%s: while a question was answered, at the least %d of the flood's %d connections were", name, ahead, connections)
		}
		if held := metric(t, b.s, "unloop_gateway_body_bytes"); held > bound {
			t.Errorf("%s: %.0f bytes are held", name, held)
		}
	}
}

// stall begins a question and leaves it open until the test ends.
func (b *besides) stall(t *testing.T, c callout) {
	t.Helper()
	stalled, in := io.Pipe()
	t.Cleanup(func() { _ = in.Close() })
	go func() { _, _, _ = b.send(t, c, "stalled", stalled) }()
	go func() { _, _ = io.WriteString(in, frame(1<<20, "{")) }()
}

// flood is a caller with many connections.
type flood struct {
	sync.WaitGroup
	answered atomic.Int64
}

// flood asks large questions until stop is closed. begun is closed once each connection had an answer.
func (b *besides) flood(t *testing.T, c callout, connections int, begun, stop chan struct{}) *flood {
	t.Helper()
	f := &flood{}
	for n := range connections {
		f.Go(func() {
			for i := 0; ; i++ {
				select {
				case <-stop:
					return
				default:
				}
				_, _, _ = b.send(t, c, "flood", strings.NewReader(c.question(fmt.Sprint(n, i, strings.Repeat(" word", 40_000)))))
				if f.answered.Add(1) == int64(connections) {
					close(begun)
				}
			}
		})
	}
	return f
}
