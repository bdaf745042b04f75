// Package clientprofile knows what ends the run of an agent whose request is rejected: clients
// differ in what they do after an error, and some go on after any.
//
// It takes the headers of a request and how often its conversation came back after it was
// rejected, and returns an answer. It may not know the network, a clock, policies or
// detectors, and it keeps nothing.
package clientprofile

import "slices"

// Answer is the HTTP status of the answer to a rejected request. InPlace is an answer in
// the model's place, every other one an error.
type Answer int

// The answers, weakest first.
const (
	// Limited is the error of a rate limit. Official SDKs raise it at once where it says
	// that it must not be retried; many other clients wait and try again.
	Limited Answer = 429
	// Refused is the error of a request that no retry can mend.
	Refused Answer = 400
	// InPlace is a message in place of the model's that asks for no tool. It ends the turn
	// of every agent that works in turns.
	InPlace Answer = 200
)

// ladder has the answers from the weakest to the strongest.
var ladder = []Answer{Limited, Refused, InPlace}

// Sender is who sent a rejected request.
type Sender struct {
	// Client is the client that sent it; nil if it is not known.
	Client *Client
	// Times is how often the conversation came back although it had been rejected.
	Times int
	// Agent says that the request shows tools: its sender works in turns, which an answer
	// of the model ends. For any other client such an answer is a success, and no end.
	Agent bool
}

// Answer returns the weakest answer that is known to end the sender, or a stronger one if it
// came back after weaker ones. Answerable says that the request can be answered in the
// model's place.
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
