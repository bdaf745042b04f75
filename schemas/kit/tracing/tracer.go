package tracing

import (
	"context"
	"net/http"

	"github.com/nats-io/nats.go"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
)

// header is the name of the W3C header with a span's context.
const header = "traceparent"

// wire reads and writes W3C trace contexts. Baggage is left alone.
var wire propagation.TraceContext

// Tracer makes the spans of a service.
type Tracer struct{ tracer trace.Tracer }

// Start starts a span within that of the context. A context without one begins a trace.
func (t *Tracer) Start(ctx context.Context, name string, kind trace.SpanKind, attrs ...attribute.KeyValue) (context.Context, trace.Span) {
	return t.tracer.Start(ctx, name, trace.WithSpanKind(kind), trace.WithAttributes(attrs...))
}

// StartLinked starts a trace of its own with links to spans elsewhere. Invalid parents are
// left out.
func (t *Tracer) StartLinked(ctx context.Context, name string, kind trace.SpanKind, parents []string, attrs ...attribute.KeyValue) (context.Context, trace.Span) {
	var links []trace.Link
	for _, parent := range parents {
		if of := trace.SpanContextFromContext(Within(context.Background(), parent)); of.IsValid() {
			links = append(links, trace.Link{SpanContext: of})
		}
	}
	return t.tracer.Start(ctx, name, trace.WithNewRoot(), trace.WithSpanKind(kind), trace.WithLinks(links...), trace.WithAttributes(attrs...))
}

// FromHTTP returns the context with the span that the headers of a request name.
func FromHTTP(ctx context.Context, h http.Header) context.Context {
	return wire.Extract(ctx, propagation.HeaderCarrier(h))
}

// ToHTTP returns the headers that name the span of a context.
func ToHTTP(ctx context.Context) http.Header {
	h := http.Header{}
	wire.Inject(ctx, propagation.HeaderCarrier(h))
	return h
}

// FromNATS returns the context with the span that the headers of a message name. NATS
// leaves the names of headers as they are.
func FromNATS(ctx context.Context, h nats.Header) context.Context {
	carrier := propagation.MapCarrier{}
	for _, name := range wire.Fields() {
		carrier[name] = h.Get(name)
	}
	return wire.Extract(ctx, carrier)
}

// ToNATS returns the headers that name the span of a context; nil without one.
func ToNATS(ctx context.Context) nats.Header {
	if !trace.SpanContextFromContext(ctx).IsValid() {
		return nil
	}
	carrier := propagation.MapCarrier{}
	wire.Inject(ctx, carrier)
	h := nats.Header{}
	for name, value := range carrier {
		h.Set(name, value)
	}
	return h
}

// Within returns the context with the span that a traceparent names.
func Within(ctx context.Context, parent string) context.Context {
	return wire.Extract(ctx, propagation.MapCarrier{header: parent})
}

// Parent returns the traceparent of a context's span; "" without one.
func Parent(ctx context.Context) string {
	carrier := propagation.MapCarrier{}
	wire.Inject(ctx, carrier)
	return carrier[header]
}
