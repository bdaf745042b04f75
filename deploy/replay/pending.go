package replay

import (
	"github.com/unloop/unloop/gateway"
	"github.com/unloop/unloop/schemas/checkpb"
)

// maxOpen bounds the requests that wait for their answers. Recordings have at
// most a few thousand at once; those of a gateway that was killed never end.
const maxOpen = 100_000

// pending is a request whose answer may still come.
type pending struct {
	// asked and decision are nil once the detectors need not hear of it.
	asked    *gateway.Question
	decision *checkpb.Decision
	// nothing is what the detectors are told if it comes to nothing.
	nothing *checkpb.Outcome
	// stopped says that the answer was not the upstream's.
	stopped bool
	model   string
	// costs is what the request is taken to cost, and sums where that was added.
	costs Cost
	sums  []*Cost
}

// open are the requests without an answer, by their id. Of too many the oldest
// are forgotten: what they are taken to cost stands.
type open struct {
	byID  map[string]*pending
	order []string
}

func (o *open) add(id string, p *pending) {
	if id == "" {
		return
	}
	if o.byID == nil {
		o.byID = map[string]*pending{}
	}
	o.byID[id] = p
	o.order = append(o.order, id)
	for len(o.byID) > maxOpen {
		delete(o.byID, o.order[0])
		o.order = o.order[1:]
	}
	if len(o.order) > 2*maxOpen { // most of them were answered
		o.forgetAnswered()
	}
}

func (o *open) forgetAnswered() {
	kept := make([]string, 0, len(o.byID))
	for _, id := range o.order {
		if _, waits := o.byID[id]; waits {
			kept = append(kept, id)
		}
	}
	o.order = kept
}

// take returns the request that an answer belongs to, nil if it is not known.
func (o *open) take(id string) *pending {
	p := o.byID[id]
	delete(o.byID, id)
	return p
}
