// Package tracing sends OpenTelemetry traces of the services, and carries W3C trace
// contexts in HTTP requests, NATS headers and messages.
//
// It knows no service and no attribute. A nil Tracer is one that is turned off: a service
// compares its tracer with nil before it does anything for a trace.
package tracing
