// Package delivery handles one message of the event stream in a row of small
// stages: read it, send it to the sink, decide what to do next, acknowledge it to
// JetStream, and report the result.
//
// The decision is a pure function. The package knows neither how messages are
// pulled nor what the sink does with them, and it logs no event's body.
package delivery
