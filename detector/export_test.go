package detector

import (
	"time"

	"github.com/unloop/unloop/schemas/kit/servertime"
)

// WithLocalClock replaces the machine's clock, from which the server's is computed.
func WithLocalClock(now func() time.Time) Option {
	return func(d *Detector) {
		d.clock = servertime.New(now, d.deps.NATS.ServerTime, d.deps.Log)
		d.now = d.clock.Now
	}
}
