package e2e

import (
	"compress/gzip"
	"context"
	"encoding/hex"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	traces "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"github.com/unloop/unloop/deploy/unloop/system"
	"github.com/unloop/unloop/schemas/kit/tracing"
)

// receiver is an OTLP receiver over HTTP.
type receiver struct {
	mu    sync.Mutex
	spans []*traces.Span
}

func (r *receiver) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	body := io.Reader(req.Body)
	if req.Header.Get("Content-Encoding") == "gzip" {
		body, _ = gzip.NewReader(req.Body)
	}
	data, _ := io.ReadAll(body)
	var sent collector.ExportTraceServiceRequest
	if req.URL.Path != "/v1/traces" || proto.Unmarshal(data, &sent) != nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, resource := range sent.GetResourceSpans() {
		for _, scope := range resource.GetScopeSpans() {
			r.spans = append(r.spans, scope.GetSpans()...)
		}
	}
}

// received returns the spans that have come, those of one name alone unless it is "".
func (r *receiver) received(name string) []*traces.Span {
	r.mu.Lock()
	defer r.mu.Unlock()
	var out []*traces.Span
	for _, s := range r.spans {
		if name == "" || s.GetName() == name {
			out = append(out, s)
		}
	}
	return out
}

// one returns the span of a name within a parent.
func (r *receiver) one(t *testing.T, name, parent string) *traces.Span {
	t.Helper()
	for _, s := range r.received(name) {
		if hex.EncodeToString(s.GetParentSpanId()) == parent {
			return s
		}
	}
	var all []string
	for _, s := range r.received("") {
		all = append(all, s.GetName()+" in "+hex.EncodeToString(s.GetParentSpanId()))
	}
	t.Fatalf("no span %q within %s, only %s", name, parent, strings.Join(all, ", "))
	return nil
}

// spanID returns the id of a span.
func spanID(s *traces.Span) string { return hex.EncodeToString(s.GetSpanId()) }

// attributes returns the attributes of a span that are texts.
func attributes(s *traces.Span) map[string]string {
	out := map[string]string{}
	for _, a := range s.GetAttributes() {
		if text := a.GetValue().GetStringValue(); text != "" {
			out[a.GetKey()] = text
		}
	}
	return out
}

// traced makes a system send its spans to a receiver.
func traced(t *testing.T, to string) (*tracing.Provider, func(*system.Config)) {
	t.Helper()
	exporter, err := otlptracehttp.New(t.Context(), otlptracehttp.WithEndpointURL(to+"/v1/traces"))
	if err != nil {
		t.Fatal(err)
	}
	provider := tracing.New(context.Background(), exporter, "unloop", "test")
	return provider, func(cfg *system.Config) { cfg.Traces = provider }
}

// Trace contexts of a client.
const (
	clientTrace = "0af7651916cd43dd8448eb211c80319c"
	clientSpan  = "b7ad6b7169203331"
	clientState = "vendor=value"
)

// upstreamHeaders is an upstream that sends the headers of each request.
func upstreamHeaders(t *testing.T, to chan<- http.Header) string {
	t.Helper()
	upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		to <- r.Header
		_, _ = io.WriteString(w, `{"choices":[{"message":{"role":"assistant","content":"Hello."}}]}`)
	}))
	t.Cleanup(upstream.Close)
	return upstream.URL
}

func TestARequestIsOneTraceOverAllServices(t *testing.T) {
	t.Parallel()
	bothWays(t, func(t *testing.T, way func(*system.Config)) {
		spans := &receiver{}
		server, hooked := httptest.NewServer(spans), make(chan struct{}, 8)
		t.Cleanup(server.Close)
		hook := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { hooked <- struct{}{} }))
		t.Cleanup(hook.Close)
		provider, on := traced(t, server.URL)
		headers := make(chan http.Header, 8)
		s, stop := startStoppable(t, upstreamHeaders(t, headers), policies(t, meaning), way, on, func(cfg *system.Config) {
			cfg.Notifier.Webhook, cfg.Notifier.AllowCIDR = hook.URL, []string{"127.0.0.0/8"}
		})
		const secret = "sk-not-to-be-seen"
		for range 2 { // the second one is a loop
			send(t, s.URL(), prompt(wordings[0]).with("Traceparent", "00-"+clientTrace+"-"+clientSpan+"-01").with("Tracestate", clientState).
				with("Authorization", "Bearer "+secret).with("X-Session-ID", "my session"))
		}
		first, second := <-headers, <-headers
		<-hooked
		stop() // which sends the spans
		if err := provider.Flush(context.Background()); err != nil {
			t.Log(err)
		}
		request := spans.one(t, "POST openai-chat", clientSpan)
		check := spans.one(t, "check", spanID(request))
		decision := spans.one(t, "decide", spanID(check))
		spans.one(t, "embeddings lexical-1", spanID(decision))
		upstream := spans.one(t, "chat m", spanID(request))
		for _, h := range []http.Header{first, second} {
			if got := h.Get("Traceparent"); !strings.HasPrefix(got, "00-"+clientTrace+"-") || strings.Contains(got, clientSpan) || h.Get("Tracestate") != clientState {
				t.Errorf("the upstream got %q and %q", got, h.Get("Tracestate"))
			}
		}
		a := attributes(upstream)
		if a["gen_ai.operation.name"] != "chat" || a["gen_ai.provider.name"] != "openai" || a["gen_ai.request.model"] != "m" || a["server.address"] != "127.0.0.1" ||
			len(a["gen_ai.conversation.id"]) < 16 {
			t.Errorf("the upstream's span has %v", a)
		}
		var outcomes []string
		var loop string
		for _, s := range spans.received("POST openai-chat") {
			a := attributes(s)
			outcomes = append(outcomes, a["unloop.action"]+" "+a["unloop.policy"]+" "+a["unloop.detector"])
			loop += a["unloop.loop_id"]
		}
		if diff := cmp.Diff([]string{"allow  ", "hint meaning semantic"}, outcomes); diff != "" {
			t.Errorf("outcomes (-want +got):\n%s", diff)
		}
		delivered := spans.received("deliver webhook")
		if len(delivered) == 0 || attributes(delivered[0])["unloop.loop_id"] != loop || len(delivered[0].GetLinks()) != 1 ||
			hex.EncodeToString(delivered[0].GetLinks()[0].GetTraceId()) != clientTrace {
			t.Errorf("the notifier's spans are %v, want one that is linked to the request of loop %s", delivered, loop)
		}
		for _, s := range spans.received("") {
			if text := s.String(); strings.Contains(text, "login page") || strings.Contains(text, secret) || strings.Contains(text, "my session") {
				t.Errorf("a span holds what the client wrote: %s", text)
			}
		}
	})
}

func TestWithoutTracesTheClientsContextPassesAsItIs(t *testing.T) {
	t.Parallel()
	headers := make(chan http.Header, 8)
	s := start(t, upstreamHeaders(t, headers))
	const parent = "00-" + clientTrace + "-" + clientSpan + "-01"
	send(t, s.URL(), prompt("one").with("Traceparent", parent).with("Tracestate", clientState))
	send(t, s.URL(), prompt("two"))
	if h := <-headers; h.Get("Traceparent") != parent || h.Get("Tracestate") != clientState {
		t.Errorf("the upstream got %v", h)
	}
	if h := <-headers; h.Values("Traceparent") != nil || h.Values("Tracestate") != nil {
		t.Errorf("the upstream got %v", h)
	}
}
