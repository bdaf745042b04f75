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

// wire reads and writes W3C trace contexts, without baggage.
var wire propagation.TraceContext

// Tracer makes the spans of a service.
type Tracer struct{ tracer trace.Tracer }

// Start starts a span as a child of the context's. Without one it starts a trace.
func (t *Tracer) Start(ctx context.Context, name string, kind trace.SpanKind, attrs ...attribute.KeyValue) (context.Context, trace.Span) {
	return t.tracer.Start(ctx, name, trace.WithSpanKind(kind), trace.WithAttributes(attrs...))
}

// StartLinked starts a new trace with links to other spans, given by traceparents. Invalid
// ones are ignored.
func (t *Tracer) StartLinked(ctx context.Context, name string, kind trace.SpanKind, parents []string, attrs ...attribute.KeyValue) (context.Context, trace.Span) {
	var links []trace.Link
	for _, parent := range parents {
		if of := trace.SpanContextFromContext(Within(context.Background(), parent)); of.IsValid() {
			links = append(links, trace.Link{SpanContext: of})
		}
	}
	return t.tracer.Start(ctx, name, trace.WithNewRoot(), trace.WithSpanKind(kind), trace.WithLinks(links...), trace.WithAttributes(attrs...))
}

// FromHTTP returns a context with the span in a request's headers.
func FromHTTP(ctx context.Context, h http.Header) context.Context {
	return wire.Extract(ctx, propagation.HeaderCarrier(h))
}

// ToHTTP returns the headers for the span of a context.
func ToHTTP(ctx context.Context) http.Header {
	h := http.Header{}
	wire.Inject(ctx, propagation.HeaderCarrier(h))
	return h
}

// FromNATS returns a context with the span in a message's headers. NATS does not canonicalize
// the names of headers.
func FromNATS(ctx context.Context, h nats.Header) context.Context {
	carrier := propagation.MapCarrier{}
	for _, name := range wire.Fields() {
		carrier[name] = h.Get(name)
	}
	return wire.Extract(ctx, carrier)
}

// ToNATS returns the headers for the span of a context; nil without one.
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

// Within returns a context with the span in a traceparent.
func Within(ctx context.Context, parent string) context.Context {
	return wire.Extract(ctx, propagation.MapCarrier{header: parent})
}

// Parent returns the traceparent of a context's span; "" without one.
func Parent(ctx context.Context) string {
	carrier := propagation.MapCarrier{}
	wire.Inject(ctx, carrier)
	return carrier[header]
}
