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

// Together returns a channel that receives at the next multiple of every, so that a process's
// loops wake it up together.
func Together(every time.Duration) <-chan time.Time {
	now := time.Now().Round(0)
	return time.After(now.Truncate(every).Add(every).Sub(now))
}
