package limit

import (
	"slices"
	"time"

	"github.com/unloop/unloop/detector/internal/hitid"
)

const (
	// maxAsked bounds the checks whose requests a record expects; the request of an older check
	// takes its cost again.
	maxAsked = 64
	// askedTTL bounds the time between a check and its request.
	askedTTL = 2 * time.Minute
)

// Request is a request with its cost.
type Request struct {
	Cost float64
	// ID is common to a request and its check; "" for requests that nobody can have
	// checked.
	ID string
	// Hit names the request, so that it is taken once; "" for one that is sent once.
	Hit string
	// Asked says that only the decision was asked for. The request may follow, and finds its
	// cost taken.
	Asked bool
}

// Asked is the cost that a check took for a request that may follow.
type Asked struct {
	// Mark is the hitid.Mark of the request's id.
	Mark string
	Cost float64
	// At is when it was taken, in Unix milliseconds.
	At int64
}

// charge is the cost of a request for each part of a limit.
type charge struct{ bucket, budget float64 }

func charged(cost float64) charge { return charge{cost, cost} }

// claim removes and returns the cost that a check took for the request; false if none
// did.
func (s State) claim(id string) (State, Asked, bool) {
	if id == "" || len(s.Asked) == 0 {
		return s, Asked{}, false
	}
	name := hitid.Mark(id)
	i := slices.IndexFunc(s.Asked, func(a Asked) bool { return a.Mark == name })
	if i < 0 {
		return s, Asked{}, false
	}
	found := s.Asked[i]
	s.Asked = slices.Delete(slices.Clone(s.Asked), i, i+1) // the old state keeps its own
	return s, found, true
}

// expect records the cost that a check took.
func (s State) expect(r Request, at int64) State {
	if !r.Asked || r.ID == "" {
		return s
	}
	kept := make([]Asked, 0, len(s.Asked)+1)
	for _, a := range s.Asked[max(0, len(s.Asked)-maxAsked+1):] {
		if at-a.At < askedTTL.Milliseconds() {
			kept = append(kept, a)
		}
	}
	kept = append(kept, Asked{hitid.Mark(r.ID), r.Cost, at})
	s.Asked = kept
	return s
}

// askedLeft returns how long the request of the newest check may still come.
func (s State) askedLeft(at int64) time.Duration {
	if len(s.Asked) == 0 {
		return 0
	}
	return milliseconds(s.Asked[len(s.Asked)-1].At + askedTTL.Milliseconds() - at)
}

// rest returns the cost of a request beyond the cost that its check took. A budget that
// restarted since does not include the check.
func (a Asked) rest(cost float64, s State, p Params) charge {
	c := charged(cost - a.Cost)
	if p.Budget != nil && p.Budget.start(a.At) != s.Period {
		c.budget = cost
	}
	return c
}

// Withdraw gives back the cost that a check took, unless its request has come since.
func Withdraw(s State, p Params, delta float64, id string, taken, now time.Time) (State, bool) {
	s, _, found := s.claim(id)
	if !found {
		return s, false
	}
	return Correct(s, p, delta, taken, now), true
}
