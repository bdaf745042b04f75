// Package sink is the contract between the delivery of messages and the services that receive
// them: what a message contains, what a sink does, and how it fails. Each folder below it is
// one sink.
//
// It does not know how messages are made, when they are sent again, or how a service is
// reached.
package sink

import (
	"context"
	"time"

	"github.com/unloop/unloop/schemas/event"
)

// MaxBody bounds the body of a message, in bytes.
const MaxBody = 20 << 10

// Message is a message to one endpoint, about one loop or a group of loops.
type Message struct {
	// ID is the same in every attempt.
	ID string
	// Endpoint is the name of the endpoint.
	Endpoint string
	// Resolved reports that every loop of the message is resolved.
	Resolved bool
	// Key names the group; it is the loop's id if nothing is grouped.
	Key string
	// Events holds the newest event of each loop, at least one.
	Events []event.Event
	// Page is the public address of the dashboard; "" for none.
	Page string
	// Time is the time of this attempt.
	Time time.Time
}

// Sink sends messages to one endpoint. It is safe for concurrent use.
type Sink interface {
	// Send makes one attempt and returns when it is over. The error is an *Error, or
	// context.Canceled if the context was cancelled. Send neither modifies nor retains the
	// message.
	Send(ctx context.Context, m *Message) error
	// Close releases idle connections.
	Close()
}
