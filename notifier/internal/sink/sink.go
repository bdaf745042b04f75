// Package sink is the contract between the delivery of messages and the services that
// take them: what a message holds, what a sink does, and how it fails. Each folder below
// it is one sink.
//
// It does not know how messages are made, when they are sent again, or how a service is
// reached.
package sink

import (
	"context"
	"time"

	"github.com/unloop/unloop/schemas/event"
)

// MaxBody is the most that a sink sends for one message, in bytes.
const MaxBody = 20 << 10

// Message is one delivery to one endpoint. It is about one loop, or about a group of
// loops.
type Message struct {
	// ID is the same for every attempt.
	ID string
	// Endpoint is the name of the endpoint.
	Endpoint string
	// Resolved reports that every loop of the message is resolved.
	Resolved bool
	// Key names the group; it is the loop's id if nothing is grouped.
	Key string
	// Events holds the newest event of each loop, at least one.
	Events []event.Event
	// Page is the address of the dashboard; "" if it has none for people elsewhere.
	Page string
	// Time is the time of this attempt.
	Time time.Time
}

// Sink takes messages to one endpoint. It is safe for concurrent use.
type Sink interface {
	// Send makes one attempt and returns when nothing of it goes on. Its error is an
	// *Error, or context.Canceled if the context was cancelled. Send neither changes nor
	// keeps the message.
	Send(ctx context.Context, m *Message) error
	// Close releases idle connections.
	Close()
}
