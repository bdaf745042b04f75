// Package delivery is what happens to one message of the event stream, a row
// of small stages: read it, send it to the sink, judge how that went, report
// it, and tell JetStream.
//
// Judging is a pure function. The package knows neither how messages are
// pulled nor what the sink does with them, and it logs no event's body.
package delivery
