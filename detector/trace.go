package detector

import (
	"context"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/unloop/unloop/detector/internal/decide"
	"github.com/unloop/unloop/schemas/checkpb"
	"github.com/unloop/unloop/schemas/kit/tracing"
)

// startSpans starts a span for each check whose gateway traces it, and makes it the parent for
// detectors that get a part of the check. Checks of one message have different parents. It
// returns nil if tracing is off.
func (d *Detector) startSpans(batch *checkpb.CheckBatch) []trace.Span {
	if d.deps.Traces == nil {
		return nil
	}
	spans := make([]trace.Span, len(batch.GetChecks()))
	for i, check := range batch.GetChecks() {
		parent := tracing.Within(context.Background(), check.GetTraceparent())
		if !trace.SpanContextFromContext(parent).IsValid() {
			continue
		}
		var ctx context.Context
		ctx, spans[i] = d.deps.Traces.Start(parent, "decide", trace.SpanKindServer)
		check.Traceparent = tracing.Parent(ctx)
	}
	return spans
}

// decideTraced decides a check, and ends its span, if it has one, with the decision.
func decideTraced(ctx context.Context, check *decide.Check, span trace.Span) *checkpb.Decision {
	if span == nil {
		return check.Decide(ctx)
	}
	defer span.End()
	decision := check.Decide(trace.ContextWithSpan(ctx, span))
	span.SetAttributes(attribute.String("unloop.action", decision.GetAction().Label()))
	if why := decision.GetError(); why != "" {
		span.SetStatus(codes.Error, why)
	}
	if decision.GetSemanticMissed() {
		span.SetAttributes(attribute.String("unloop.degraded", "semantic"))
	}
	for _, f := range decision.GetFindings() {
		span.AddEvent("finding", trace.WithAttributes(
			attribute.String("unloop.policy", f.GetPolicy()), attribute.String("unloop.detector", f.GetDetector()), attribute.String("unloop.action", f.GetAction().Label()),
			attribute.String("unloop.loop_id", f.GetLoopId()), attribute.Int("unloop.count", int(f.GetHitCount())), attribute.Bool("unloop.shadow", f.GetShadow()),
		))
	}
	return decision
}
