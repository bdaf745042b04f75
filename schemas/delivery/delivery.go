// Package delivery defines what notifiers keep of their deliveries, and the requests that
// operators send them: the records of the delivery log and of dead letters, and the bodies
// on loop.delivery.…, all of them JSON.
//
// It does not know how messages are sent.
package delivery

import (
	"time"

	"github.com/unloop/unloop/schemas/event"
)

// Status is the state of a delivery.
type Status string

// The statuses.
const (
	// Delivered means that the endpoint took the message.
	Delivered Status = "delivered"
	// Retrying means that another attempt follows.
	Retrying Status = "retrying"
	// Dead means that the message was given up; it is in the stream of dead letters.
	Dead Status = "dead"
)

// MaxAttempts is how many attempts a record lists, the newest.
const MaxAttempts = 12

// Record is one message to one endpoint: an entry of the delivery log, or a dead letter.
type Record struct {
	// ID of the message, the same for every attempt.
	ID       string `json:"id"`
	Endpoint string `json:"endpoint"`
	Status   Status `json:"status"`
	// Key names the group of loops that the message is about; the loop's id if nothing is
	// grouped.
	Key string `json:"key"`
	// Resolved reports that every loop of the message is resolved.
	Resolved bool `json:"resolved,omitempty"`
	// Queued is when the message was made.
	Queued time.Time `json:"queued"`
	// Next is when the next attempt is due; absent if none follows.
	Next time.Time `json:"next,omitzero"`
	// Tried is the number of attempts, Attempts the newest of them, oldest first.
	Tried    int       `json:"tried"`
	Attempts []Attempt `json:"attempts"`
	// Reason says why a dead letter was given up.
	Reason string `json:"reason,omitempty"`
	// Events are the newest events of the loops that the message is about.
	Events []event.Event `json:"events"`
}

// Attempt is one attempt at a delivery.
type Attempt struct {
	At time.Time `json:"at"`
	// Milliseconds is how long it took.
	Milliseconds int64 `json:"milliseconds"`
	// Status is the endpoint's status; 0 if it did not answer.
	Status int `json:"status,omitempty"`
	// Error says why the attempt failed; empty if it did not. It holds no URL and no secret.
	Error string `json:"error,omitempty"`
	// Manual reports that an operator asked for the attempt.
	Manual bool `json:"manual,omitempty"`
}

// Add returns the record with one more attempt. It shares no slice with r.
func (r Record) Add(a Attempt) Record {
	kept := r.Attempts[max(0, len(r.Attempts)-MaxAttempts+1):]
	r.Attempts = append(append(make([]Attempt, 0, len(kept)+1), kept...), a)
	r.Tried++
	return r
}

// Request is what an operator asks of a notifier.
type Request struct {
	// Endpoint is the name of the endpoint.
	Endpoint string `json:"endpoint"`
	// ID is the message to send again.
	ID string `json:"id,omitempty"`
}

// Reply answers a Request.
type Reply struct {
	// Error says why the request could not be carried out.
	Error string `json:"error,omitempty"`
	// Record is the delivery with the attempt that was asked for.
	Record *Record `json:"record,omitempty"`
}

// Beginnings of Reply.Error for what does not exist.
const (
	ErrorNoEndpoint = "no endpoint has this name"
	ErrorNoMessage  = "the delivery log has no such message"
)

// Endpoint is the stored state of an endpoint.
type Endpoint struct {
	// Disabled is when the endpoint asked for no more messages; zero if it did not.
	Disabled time.Time `json:"disabled,omitzero"`
	// Reason says why it is disabled.
	Reason string `json:"reason,omitempty"`
	// Paused is until when the endpoint asked to be left alone.
	Paused time.Time `json:"paused,omitzero"`
}
