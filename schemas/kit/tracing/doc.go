// Package tracing exports OpenTelemetry traces, and propagates W3C trace contexts in HTTP and
// NATS headers and in messages.
//
// It knows no service and no attribute. A nil *Tracer means that traces are off.
package tracing
