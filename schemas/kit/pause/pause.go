// Package pause waits for some time, or until a context ends.
package pause

import (
	"context"
	"time"
)

// For returns nil after d, or the context's error if it ends before.
func For(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Together returns a channel that gets a value at the next multiple of every. Loops of a
// process that wait so wake it at the same times, and so less often.
func Together(every time.Duration) <-chan time.Time {
	now := time.Now().Round(0)
	return time.After(now.Truncate(every).Add(every).Sub(now))
}
