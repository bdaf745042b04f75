package embedworker

import (
	"time"

	"github.com/unloop/unloop/schemas/kit/servertime"
)

// WithLocalClock replaces the machine's clock, from which the server's is computed.
func WithLocalClock(now func() time.Time) Option {
	return func(w *Worker) {
		w.clock = servertime.New(now, w.deps.NATS.ServerTime, w.deps.Log)
		w.now = w.clock.Now
	}
}
