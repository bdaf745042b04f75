package replay

import (
	"github.com/unloop/unloop/gateway"
	"github.com/unloop/unloop/schemas/checkpb"
)

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

// maxOpen bounds the requests that wait for their answers. Recordings have at
// most a few thousand at once; those of a gateway that was killed never end.
const maxOpen = 100_000

// open holds the requests without an answer, by their id, in two generations. When
// the newer one is full, the older one is forgotten: the estimated costs of its
// requests stand.
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

// take returns and removes the request with an id, nil if it is not known.
func (o *open) take(id string) *pending {
	for _, generation := range []map[string]*pending{o.newer, o.older} {
		if p := generation[id]; p != nil {
			delete(generation, id)
			return p
		}
	}
	return nil
}
