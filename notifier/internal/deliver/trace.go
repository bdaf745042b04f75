package deliver

import (
	"context"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/unloop/unloop/notifier/internal/outbox"
	"github.com/unloop/unloop/schemas/delivery"
)

// maxTraced bounds the loops of a message that its span names and links to.
const maxTraced = 16

// startSpan starts the span of an attempt. It begins a new trace, linked to the requests that
// opened the loops: an attempt may come hours later and be about several of them.
func (e *endpoint) startSpan(ctx context.Context, def *Endpoint, rec *outbox.Record) (context.Context, trace.Span) {
	events := rec.Batch.Events[:min(len(rec.Batch.Events), maxTraced)]
	loops, parents := make([]string, len(events)), make([]string, len(events))
	for i := range events {
		loops[i], parents[i] = events[i].Data.LoopID, events[i].Traceparent
	}
	ctx, span := e.Traces.StartLinked(ctx, "deliver "+def.Kind, trace.SpanKindClient, parents,
		attribute.String("unloop.endpoint", def.Name), attribute.String("unloop.sink", def.Kind), attribute.String("unloop.message_id", rec.Batch.ID),
		attribute.Int("unloop.attempt", rec.Attempts+1), attribute.StringSlice("unloop.loop_ids", loops))
	if len(events) == 1 {
		first := &events[0]
		span.SetAttributes(attribute.String("unloop.event", string(first.Type)), attribute.String("unloop.loop_id", first.Data.LoopID),
			attribute.String("unloop.policy", first.Data.Policy), attribute.String("unloop.detector", first.Data.Detector), attribute.String("unloop.action", first.Data.Action))
	}
	return ctx, span
}

// describe adds the result of an attempt to its span.
func describe(span trace.Span, a delivery.Attempt) {
	if a.Status != 0 {
		span.SetAttributes(attribute.Int("http.response.status_code", a.Status))
	}
	if a.Error != "" {
		span.SetStatus(codes.Error, a.Error)
	}
}
