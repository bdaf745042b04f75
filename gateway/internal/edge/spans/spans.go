// Package spans describes requests in trace spans: their outcomes, and the answers of
// upstreams. The attributes follow OpenTelemetry's conventions for generative AI.
//
// It does not know how spans are exported.
package spans

import (
	"context"
	"net/http"
	"strconv"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/unloop/unloop/gateway/internal/decide/outcome"
	"github.com/unloop/unloop/gateway/internal/memory/account"
	"github.com/unloop/unloop/gateway/internal/wire/request"
	"github.com/unloop/unloop/schemas/bounded"
	"github.com/unloop/unloop/schemas/kit/tracing"
)

// Outcome describes the outcome of a request in its span.
func Outcome(ctx context.Context, req *request.Request, from *request.Subject, out *outcome.Outcome) {
	span := trace.SpanFromContext(ctx)
	if !span.IsRecording() {
		return
	}
	span.SetName(req.Method + " " + req.Provider.Name())
	span.SetAttributes(promptAttributes(req, from)...)
	span.SetAttributes(
		attribute.String("unloop.outcome", out.Label),
		attribute.String("unloop.action", out.Finding.GetAction().Label()),
		attribute.String("unloop.upstream", req.Target.Upstream),
	)
	for _, a := range []struct{ key, value string }{
		{"unloop.policy", out.Finding.GetPolicy()}, {"unloop.detector", out.Finding.GetDetector()}, {"unloop.loop_id", out.Finding.GetLoopId()},
		{"unloop.degraded", out.Degraded()},
	} {
		if a.value != "" {
			span.SetAttributes(attribute.String(a.key, a.value))
		}
	}
	for _, v := range out.Verdicts {
		if v.GetAction().Stops() && !v.Wire.GetShadow() {
			span.SetAttributes(attribute.String("unloop.policy", v.Wire.GetPolicy()), attribute.String("unloop.rule", v.Wire.GetRule()))
			break
		}
	}
}

// Status records the status of an answer in a span.
func Status(span trace.Span, status int, failed bool) {
	if !span.IsRecording() {
		return
	}
	span.SetAttributes(attribute.Int("http.response.status_code", status))
	if failed {
		span.SetAttributes(attribute.String("error.type", strconv.Itoa(status)))
		span.SetStatus(codes.Error, "")
	}
}

// Answer records the status of the answer in the request's span.
func Answer(ctx context.Context, status int) {
	Status(trace.SpanFromContext(ctx), status, status >= http.StatusInternalServerError)
}

// maxModel bounds the names of models in spans, in bytes.
const maxModel = 128

func modelName(model string) string { return bounded.Name(model, maxModel) }

// promptAttributes returns the attributes for generative AI; none for a request without a
// prompt. The conversation is a hash.
func promptAttributes(req *request.Request, from *request.Subject) []attribute.KeyValue {
	if !req.Target.Format.Prompt() {
		return nil
	}
	out := []attribute.KeyValue{
		attribute.String("gen_ai.operation.name", req.Target.Format.Operation), attribute.String("gen_ai.provider.name", req.Target.System()),
	}
	if model := req.Model(); model != "" {
		out = append(out, attribute.String("gen_ai.request.model", modelName(model)))
	}
	if session := from.Identity.GetSession(); session != "" {
		out = append(out, attribute.String("gen_ai.conversation.id", session))
	}
	return out
}

// Upstream starts the span of the upstream's answer, and returns it and the headers that
// carry its context.
func Upstream(traces *tracing.Tracer, a *account.Account) (http.Header, trace.Span) {
	req := a.Request
	name := req.Method
	if req.Target.Format.Prompt() {
		name = req.Target.Format.Operation + " " + modelName(req.Model())
	}
	attrs := append(promptAttributes(req, &a.Subject), attribute.String("http.request.method", req.Method), attribute.String("server.address", req.Target.URL.Hostname()))
	if port, err := strconv.Atoi(req.Target.URL.Port()); err == nil {
		attrs = append(attrs, attribute.Int("server.port", port))
	}
	ctx, span := traces.Start(a.HTTP.Context(), name, trace.SpanKindClient, attrs...)
	return tracing.ToHTTP(ctx), span
}

// End ends the span of an upstream's answer, with its tokens if known.
func End(span trace.Span, a *account.Account) {
	if u := a.Usage; u.Input > 0 || u.Output > 0 {
		span.SetAttributes(attribute.Int("gen_ai.usage.input_tokens", u.Input), attribute.Int("gen_ai.usage.output_tokens", u.Output))
	}
	span.End()
}
