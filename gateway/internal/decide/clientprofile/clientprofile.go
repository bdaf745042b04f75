// Package clientprofile knows which answer to a rejected request ends an agent's run:
// clients handle errors in different ways, and some retry after every error.
//
// It takes the headers of a request and how often its conversation came back after a
// rejection, and returns an answer. It may not know the network, a clock, policies or
// detectors, and has no state.
package clientprofile

import "slices"

// Answer is the HTTP status of the answer to a rejected request. All but InPlace are errors.
type Answer int

// The answers, weakest first.
const (
	// Limited is the error of a rate limit. Official SDKs raise it at once if it says that
	// it must not be retried; many other clients wait and retry.
	Limited Answer = 429
	// Refused is the error of an invalid request, which no retry can fix.
	Refused Answer = 400
	// InPlace is a message in place of the model's that calls no tool. It ends the turn of
	// every agent that works in turns.
	InPlace Answer = 200
)

// ladder has the answers, weakest first.
var ladder = []Answer{Limited, Refused, InPlace}

// Sender is the sender of a rejected request.
type Sender struct {
	// Client is nil if it is unknown.
	Client *Client
	// Times is how often the conversation came back after a rejection.
	Times int
	// Agent says that the request shows tools: its sender works in turns, which a message of
	// the model ends. To other clients such a message is a success.
	Agent bool
}

// Answer returns the weakest answer that is known to end the sender's run, or a stronger one
// if the sender came back after weaker ones. answerable says that the request can be answered
// in the model's place.
func (s Sender) Answer(answerable bool) Answer {
	first := Limited
	if s.Client != nil {
		first = s.Client.EndsBy
	}
	from, to := slices.Index(ladder, first), len(ladder)-1
	if !answerable || !s.Agent && first != InPlace {
		to = slices.Index(ladder, Refused)
	}
	return ladder[min(from+s.Times, to)]
}
