package tracing

import (
	"bytes"
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"
)

func TestTheEnvironmentSaysWhetherTracesAreSent(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		env         map[string]string
		want, fault string
	}{
		"nothing":             {nil, "", ""},
		"a name alone":        {map[string]string{"OTEL_SERVICE_NAME": "x"}, "", ""},
		"an endpoint":         {map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://collector:4318"}, protocolHTTP, ""},
		"traces' endpoint":    {map[string]string{"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://collector:4318/v1/traces"}, protocolHTTP, ""},
		"the exporter":        {map[string]string{"OTEL_TRACES_EXPORTER": "otlp"}, protocolHTTP, ""},
		"gRPC":                {map[string]string{"OTEL_TRACES_EXPORTER": "otlp", "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"}, protocolGRPC, ""},
		"traces' own":         {map[string]string{"OTEL_TRACES_EXPORTER": "otlp", "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc", "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL": "http/protobuf"}, protocolHTTP, ""},
		"disabled":            {map[string]string{"OTEL_TRACES_EXPORTER": "otlp", "OTEL_SDK_DISABLED": "true"}, "", ""},
		"none":                {map[string]string{"OTEL_TRACES_EXPORTER": "none", "OTEL_EXPORTER_OTLP_ENDPOINT": "http://collector:4318"}, "", ""},
		"an unknown exporter": {map[string]string{"OTEL_TRACES_EXPORTER": "zipkin"}, "", "OTEL_TRACES_EXPORTER"},
		"an unknown protocol": {map[string]string{"OTEL_TRACES_EXPORTER": "otlp", "OTEL_EXPORTER_OTLP_PROTOCOL": "http/json"}, "", "OTEL_EXPORTER_OTLP_PROTOCOL"},
	} {
		got, err := exporterKind(func(name string) string { return c.env[name] })
		if got != c.want || (err == nil) != (c.fault == "") || err != nil && !strings.Contains(err.Error(), c.fault) {
			t.Errorf("%s: %q, %v; want %q, %q", name, got, err, c.want, c.fault)
		}
	}
}

func TestSpansAreSentToTheEndpointOfTheEnvironment(t *testing.T) {
	paths := make(chan string, 8)
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { paths <- r.URL.Path + " " + r.Header.Get("X-Key") }))
	t.Cleanup(server.Close)
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", server.URL)
	t.Setenv("OTEL_EXPORTER_OTLP_HEADERS", "x-key=secret")
	var log bytes.Buffer
	p := FromEnv(t.Context(), "unloop-test", "1", slog.New(slog.NewTextHandler(&log, nil)))
	_, span := p.Tracer("test").Start(t.Context(), "work", trace.SpanKindInternal)
	span.End()
	p.Close()
	if got := <-paths; got != "/v1/traces secret" {
		t.Errorf("sent to %q", got)
	}
	if strings.Contains(log.String(), "secret") {
		t.Errorf("the log has a header's value: %s", log.String())
	}
	t.Setenv("OTEL_SDK_DISABLED", "true")
	if off := FromEnv(t.Context(), "unloop-test", "1", slog.New(slog.DiscardHandler)); off.Tracer("test") != nil || off.Flush(t.Context()) != nil {
		t.Error("a disabled provider has a tracer")
	} else {
		off.Close()
	}
}

func TestContextsTravelInHeadersAndMessages(t *testing.T) {
	t.Parallel()
	spans := tracetest.NewInMemoryExporter()
	p := New(t.Context(), spans, "test", "1")
	t.Cleanup(p.Close)
	ctx, span := p.Tracer("test").Start(t.Context(), "outer", trace.SpanKindServer)
	want := span.SpanContext()
	for name, got := range map[string]context.Context{
		"HTTP":    FromHTTP(t.Context(), ToHTTP(ctx)),
		"NATS":    FromNATS(t.Context(), ToNATS(ctx)),
		"message": Within(t.Context(), Parent(ctx)),
	} {
		if of := trace.SpanContextFromContext(got); of.TraceID() != want.TraceID() || of.SpanID() != want.SpanID() || !of.IsRemote() {
			t.Errorf("%s: %v, want %v", name, of, want)
		}
	}
	if h, parent := ToNATS(t.Context()), Parent(t.Context()); h != nil || parent != "" {
		t.Errorf("without a span there are headers %v and a parent %q", h, parent)
	}
	_, linked := p.Tracer("test").StartLinked(ctx, "linked", trace.SpanKindClient, []string{Parent(ctx), "", "no context"})
	linked.End()
	if err := p.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	sent := spans.GetSpans()
	if len(sent) != 1 || len(sent[0].Links) != 1 || sent[0].Links[0].SpanContext.TraceID() != want.TraceID() || sent[0].SpanContext.TraceID() == want.TraceID() {
		t.Errorf("sent %+v", sent)
	}
}
