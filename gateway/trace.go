package gateway

import (
	"net/http"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"

	"github.com/unloop/unloop/schemas/kit/tracing"
)

// traced serves a request inside a span, a child of the client's span, if traces are on.
func (g *Gateway) traced(w http.ResponseWriter, r *http.Request, serve http.HandlerFunc) {
	if g.deps.Traces == nil {
		serve(w, r)
		return
	}
	ctx, span := g.deps.Traces.Start(tracing.FromHTTP(r.Context(), r.Header), r.Method, trace.SpanKindServer, attribute.String("http.request.method", r.Method))
	defer span.End()
	serve(w, r.WithContext(ctx))
}
