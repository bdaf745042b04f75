package replay

import (
	"github.com/unloop/unloop/gateway"
	"github.com/unloop/unloop/schemas/checkpb"
)

// pending is a request whose answer is still to come.
type pending struct {
	// evaluation and decision are nil once nothing has to be reported to the detector.
	evaluation *gateway.Evaluation
	decision   *checkpb.Decision
	// uncounted is the report to the detector if the request does not count; nil if the
	// recorded answer was a refusal of Unloop.
	uncounted *checkpb.Outcome
	model     string
	// costs are the costs as known so far, and sums the sums that include them.
	costs Cost
	sums  []*Cost
}

// maxOpen bounds the requests that wait for answers. Usually these are at most a few thousand,
// but answers are missing if the gateway was killed.
const maxOpen = 100_000

// open holds requests without an answer by id, in two generations. When the newer one is full,
// the older one is dropped, and its requests keep their estimated costs.
type open struct{ newer, older map[string]*pending }

func (o *open) add(id string, p *pending) {
	if id == "" {
		return
	}
	if o.newer == nil || len(o.newer) >= maxOpen/2 {
		o.newer, o.older = map[string]*pending{}, o.newer
	}
	o.newer[id] = p
}

// take removes and returns the request with an id, or nil.
func (o *open) take(id string) *pending {
	for _, generation := range []map[string]*pending{o.newer, o.older} {
		if p := generation[id]; p != nil {
			delete(generation, id)
			return p
		}
	}
	return nil
}
