package recorder

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/unloop/unloop/schemas"
	"github.com/unloop/unloop/schemas/kit/natskit"
)

// roomKnown is how long it counts whether the bucket had room.
const roomKnown = time.Second

// room says whether the bucket of incidents has room for another one. What is left of a
// full bucket is kept for the incidents that are open: they grow and end.
type room struct {
	nc *natskit.Conn
	mu sync.Mutex
	// looked is the time of the last look, full its result.
	looked time.Time
	full   bool
}

// take returns natskit.ErrFull if there is no room. If the server does not say, the bucket
// itself has to refuse the incident.
func (r *room) take(ctx context.Context) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if time.Since(r.looked) > roomKnown {
		ctx, cancel := context.WithTimeout(ctx, roomKnown)
		defer cancel()
		stream, err := r.nc.JetStream().Stream(ctx, natskit.BucketStream(schemas.BucketIncidents))
		r.looked, r.full = time.Now(), err == nil && natskit.Fullness(stream.CachedInfo()) >= natskit.FullFrom
	}
	if r.full {
		return fmt.Errorf("%s: %w", schemas.BucketIncidents, natskit.ErrFull)
	}
	return nil
}
